// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Faults that happen on purpose. SOFTHCA_FAULTS holds rules, or the path of a file with them, which
// has a slash in it. Rules are separated by line ends and semicolons; '#' starts a comment.
//
//   RULE    = [softhcaN] [qp K] ACTION
//   ACTION  = error STATUS at N   the Nth send work request is not executed and completes with
//   STATUS
//           | delay US at N       the Nth completes, for both sides, US microseconds later
//           | drop at N           from the Nth on the queue pairs are unreachable, and reach nobody
//           | kill at N           the process dies when it posts the Nth
//           | down MS at N        the port is down for MS milliseconds from the Nth on
//           | endless at N        the queue pair of the Nth never gives up repeating
//           | rnr N               the first N messages to each RC queue pair find it not ready
//   STATUS  = the name of an ibv_wc_status in small letters without IBV_WC_, as in rem_access_err
//
// A rule is for the queue pairs of this process on that HCA, or on any; for all of them together or
// for the Kth that was created. Work requests are counted from 1 over all that the rule is for.
#pragma once

#include "emu/softhca/objects.hpp"

#include <cstdint>

namespace softhca {

// What befalls a work request.
struct Injected {
    std::uint8_t status = 0; // ibv_wc_status
    std::uint32_t delay_us = 0;
};

// A queue pair is created: sets its storm, and returns which one of its device it is, or 0 when no
// rule ever concerns its work requests.
std::uint32_t enlist_qp(unsigned device, QpShared& qp);

// A work request is posted to a queue pair for which enlist_qp() gave this number.
Injected inject(Process& self, QpShared& qp, std::uint32_t number);

// Raises the ports again that this process took down, when it is time; returns when that is next,
// 0: none is down.
std::uint64_t restore_ports(Process& self);

// Whether a port is down.
bool is_down(Process& self, unsigned device);

} // namespace softhca
