// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The moment at which UCX is really used. A preloaded library is in every process of its
// environment, and which of them uses UCX shows when the first variables are read: libucp and
// libuct have libucs do that, with the function defined here, which so is called first where this
// library comes before libucs.
#include "abi/variable_reads.hpp"

#include "abi/settings.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

#include <dlfcn.h>

extern "C" {
#include <ucs/type/status.h>

// The number and meaning of the arguments after the second differ between series: all are passed
// on.
[[gnu::visibility("default")]] ucs_status_t ucs_config_parser_fill_opts(void* options, void* table,
                                                                        const char* prefix,
                                                                        const void* fourth,
                                                                        uintptr_t fifth);
}

namespace gdr::abi {
namespace {

std::atomic<void (*)()> to_be_called{nullptr}; // libucs reads its own before this library starts

} // namespace

void* fill_options_of_libucs()
{
    static void* const of_libucs = dlsym(RTLD_NEXT, "ucs_config_parser_fill_opts");
    return of_libucs;
}

// Ours is the one that all of UCX calls if the program, and what was loaded with it, finds it
// first. Its name alone does not tell: here too it means the first.
bool before_variables_are_read(void (*function)())
{
    void* program = dlopen(nullptr, RTLD_LAZY);
    Dl_info first = {}, ours = {};
    dladdr(dlsym(program, "ucs_config_parser_fill_opts"), &first);
    dladdr(&to_be_called, &ours);
    dlclose(program);
    if (first.dli_fbase != ours.dli_fbase)
        return false;
    to_be_called = function;
    return true;
}

} // namespace gdr::abi

ucs_status_t ucs_config_parser_fill_opts(void* options, void* table, const char* prefix,
                                         const void* fourth, uintptr_t fifth)
{
    static std::once_flag called;
    if (void (*function)() = gdr::abi::to_be_called)
        std::call_once(called, function);
    return reinterpret_cast<decltype(&ucs_config_parser_fill_opts)>(
        gdr::abi::fill_options_of_libucs())(options, table, prefix, fourth, fifth);
}
