// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Messages, through the logger of the UCX in use.
#pragma once

#include "sync/ucx/ucx.hpp"

#include <string>

namespace gdr::sync {

// Logs one line. A process logs the same text only once. Any thread.
void log_once(const Ucx& ucx, ucs_log_level_t level, const std::string& message);

// Leads the log of the rooms below to this UCX's; the first of a process stays.
void lead_log(const Ucx& ucx);

} // namespace gdr::sync
