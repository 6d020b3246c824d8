// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "abi/ucx_log.hpp"

#include "abi/ucx.hpp"
#include "log/log.hpp"

#include <algorithm>

extern "C" {
#include <ucs/debug/log_def.h>
}

namespace gdr::abi {
namespace {

ucs_log_level_t ucs_level(log::Level level)
{
    switch (level) {
    case log::Level::error:
        return UCS_LOG_LEVEL_ERROR;
    case log::Level::warn:
        return UCS_LOG_LEVEL_WARN;
    case log::Level::diag:
        return UCS_LOG_LEVEL_DIAG;
    case log::Level::info:
        return UCS_LOG_LEVEL_INFO;
    case log::Level::debug:
        return UCS_LOG_LEVEL_DEBUG;
    case log::Level::data:
        break;
    }
    return UCS_LOG_LEVEL_TRACE_DATA;
}

bool enabled(log::Level level)
{
    return ucs_level(level) <= ucx().global_opts->log_component.log_level;
}

void write(log::Level level, const char* file, unsigned line, const char* message)
{
    // A UCX that was built without the levels behind DEBUG drops their messages.
    ucs_log_dispatch(file, line, "", std::min(ucs_level(level), UCS_LOG_LEVEL_DEBUG),
                     &ucx().global_opts->log_component, "gdr: %s", message);
}

} // namespace

void log_to_ucx()
{
    static constexpr log::BackEnd kUcx{.enabled = enabled, .write = write};
    log::set_back_end(kUcx);
}

} // namespace gdr::abi
