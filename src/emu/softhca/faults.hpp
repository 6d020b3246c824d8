// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Faults that happen on purpose, by the rules of fault_rules.hpp.
#pragma once

#include "emu/softhca/objects.hpp"

#include <cstdint>

namespace softhca {

// What befalls a work request.
struct Injected {
    std::uint8_t status = 0; // ibv_wc_status
    std::uint32_t delay_us = 0;
    bool cut_off = false;
};

// The process has joined its fabric: takes the ports down that are down from the start.
void begin_faults(Process& self);

// A queue pair is created: sets its storm, and returns which one of its device it is, or 0 when no
// rule ever concerns its work requests.
std::uint32_t enlist_qp(unsigned device, QpShared& qp);

// A work request is posted to a queue pair for which enlist_qp() gave this number.
Injected inject(Process& self, QpShared& qp, std::uint32_t number);

// Raises the ports again that this process took down, when it is time; returns when that is next,
// 0: none is down.
std::uint64_t restore_ports(Process& self);

// ibv_modify_qp is called.
void modify_slowly(unsigned device);

// An address is to be made ready for packets; 0 or an errno.
int resolve(unsigned device, const ibv_ah_attr& address);

// Whether a port is down.
bool is_down(Process& self, unsigned device);

} // namespace softhca
