// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading of the environment variables that settings.hpp lists.
#include "emu/softmlx5/settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace softmlx5 {
namespace {

bool read_switch(const char* variable, bool otherwise)
{
    const char* const value = std::getenv(variable);
    const std::string_view word = value == nullptr ? "" : value;
    if (value == nullptr || word == "y" || word == "n") {
        return value == nullptr ? otherwise : word == "y";
    }
    std::fprintf(stderr,
                 "softmlx5: %s=%s is not understood: expected y or n; the default is used\n",
                 variable, value);
    return otherwise;
}

} // namespace

const Settings& settings()
{
    static const Settings instance = {read_switch("SOFTMLX5_DEVX", true)};
    return instance;
}

} // namespace softmlx5
