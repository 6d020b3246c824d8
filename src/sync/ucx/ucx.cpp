// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks for a UCX among the libraries of the process.
#include "sync/ucx/ucx.hpp"

#include <set>

#include <dlfcn.h>
#include <link.h>

namespace gdr::sync {
namespace {

constexpr const char* kOfLibucp = "ucp_worker_progress";

// The library that holds an address, or "" for the program itself. A linked program may hold the
// address of a library's function.
std::string library_of(const void* address)
{
    Dl_info info;
    link_map* map = nullptr;
    if (address == nullptr ||
        dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
        return {};
    }
    return map->l_name;
}

// Libraries of the process that are a libucp.
std::set<std::string> all_libucp()
{
    std::set<std::string> paths;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* found) {
            void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
            if (library == nullptr) {
                return 0;
            }
            // dlsym() also finds the function through libraries that only link with libucp.
            if (const std::string path = library_of(dlsym(library, kOfLibucp)); !path.empty()) {
                static_cast<std::set<std::string>*>(found)->insert(path);
            }
            dlclose(library);
            return 0;
        },
        &paths);
    return paths;
}

std::string fill(void* library, Ucx& ucx)
{
#define GDR_SYNC_LOOK_UP(function)                                                                 \
    ucx.function = reinterpret_cast<decltype(ucx.function)>(dlsym(library, #function));            \
    if (ucx.function == nullptr)                                                                   \
        return "this UCX has no " #function ": 1.13 or later is needed";
    GDR_SYNC_UCX_FUNCTIONS(GDR_SYNC_LOOK_UP)
#undef GDR_SYNC_LOOK_UP
    // A program that is linked with libucs may hold the variable itself (a copy relocation).
    void* options = dlsym(RTLD_DEFAULT, "ucs_global_opts");
    if (options == nullptr || !library_of(options).empty()) {
        options = dlsym(library, "ucs_global_opts");
    }
    if (options == nullptr) {
        return "this UCX has no ucs_global_opts";
    }
    ucx.global_opts = static_cast<ucs_global_opts_t*>(options);
    return {};
}

} // namespace

std::string find_ucx(const void* function, Ucx& ucx)
{
    std::string path = library_of(function);
    if (path.empty()) {
        path = library_of(dlsym(RTLD_DEFAULT, kOfLibucp));
    }
    if (path.empty()) {
        const auto paths = all_libucp();
        if (paths.empty()) {
            return "there is no libucp in this process: load UCX before ugdr_context_create()";
        }
        if (paths.size() > 1) {
            return "there are several libucp in this process (" + *paths.begin() + ", " +
                   *std::next(paths.begin()) +
                   "): give ugdr_context_create_version() a function of the one to use";
        }
        path = *paths.begin();
    }
    // The library stays open: its functions are called as long as there are contexts.
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    return library != nullptr ? fill(library, ucx) : dlerror();
}

} // namespace gdr::sync
