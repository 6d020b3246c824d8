// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/ucx/log.hpp"

#include "log/log.hpp"

#include <mutex>
#include <set>

namespace gdr::sync {
namespace {

const Ucx* leads_to = nullptr;

ucs_log_level_t level_of(log::Level level)
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
        return UCS_LOG_LEVEL_TRACE_DATA;
    }
    return UCS_LOG_LEVEL_ERROR;
}

} // namespace

void lead_log(const Ucx& ucx)
{
    static const log::BackEnd to_ucx{
        [](log::Level level) {
            return level_of(level) <= leads_to->global_opts->log_component.log_level;
        },
        [](log::Level level, const char* file, unsigned line, const char* message) {
            leads_to->ucs_log_dispatch(file, line, "", level_of(level),
                                       &leads_to->global_opts->log_component, "ugdr: %s", message);
        }};
    static const bool once = [&] {
        leads_to = new Ucx(ucx); // used while the process ends
        log::set_back_end(to_ucx);
        return true;
    }();
    static_cast<void>(once);
}

void log_once(const Ucx& ucx, ucs_log_level_t level, const std::string& message)
{
    static auto& mutex = *new std::mutex;
    static auto& said = *new std::set<std::string>;
    ucs_log_component_config_t& component = ucx.global_opts->log_component;
    if (level > component.log_level) {
        return;
    }
    const std::lock_guard guard(mutex);
    if (said.insert(message).second) {
        ucx.ucs_log_dispatch(__FILE__, __LINE__, "", level, &component, "ugdr: %s",
                             message.c_str());
    }
}

} // namespace gdr::sync
