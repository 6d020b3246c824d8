// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completions that are neither messages nor sends that have succeeded.
#pragma once

#include <infiniband/verbs.h>

namespace gdr::rc {

struct Iface;

[[gnu::cold]] void handle_error(Iface& iface, const ibv_wc& wc);

// A receive that completed without a message of ours: its connection ends.
void handle_intrusion(Iface& iface, const ibv_wc& wc);

} // namespace gdr::rc
