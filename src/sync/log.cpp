// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/log.hpp"

#include <mutex>
#include <set>

namespace gdr::sync {

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
