// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Failures and their text.
#include "failure.hpp"

#include <cstdarg>
#include <cstdio>

namespace ucptest {

std::string format(const char* pattern, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof(text), pattern, arguments);
    va_end(arguments);
    return text;
}

void require(bool condition, const std::string& what)
{
    if (!condition) {
        throw Failure(what);
    }
}

void require_ok(ucs_status_t status, const std::string& call)
{
    if (status != UCS_OK) {
        throw Failure(call + ": " + ucs_status_string(status));
    }
}

} // namespace ucptest
