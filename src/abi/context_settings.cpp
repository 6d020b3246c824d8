// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP prints its configuration, a line for each variable: "UCX_TLS=all".
#include "abi/context_settings.hpp"

#include "abi/settings.hpp"

#include <cstdlib>
#include <memory>
#include <string_view>

extern "C" {
#include <ucs/config/types.h>
}

namespace gdr::abi {
namespace {

thread_local std::string printed; // of the context that is being made; empty: there is none

std::string print(const void* config, PrintConfig* print_config)
{
    char* text = nullptr;
    size_t length = 0;
    std::FILE* const stream = open_memstream(&text, &length);
    if (stream == nullptr) {
        return {};
    }
    print_config(config, stream, "", UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HIDDEN);
    std::fclose(stream);
    const std::unique_ptr<char, decltype(&std::free)> owner(text, std::free);
    return "\n" + std::string(text, length);
}

} // namespace

void begin_context(const void* config, PrintConfig* print_config)
{
    printed = print(config, print_config);
}

void end_context()
{
    printed.clear();
}

std::optional<std::string> context_setting(const char* name)
{
    const std::string start = std::string("\nUCX_") + name + "=";
    const size_t at = printed.find(start);
    if (at == std::string::npos) {
        return user_setting(name);
    }
    const size_t first = at + start.size();
    return printed.substr(first, printed.find('\n', first) - first);
}

} // namespace gdr::abi
