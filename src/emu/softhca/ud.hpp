// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Unreliable datagrams.
#pragma once

#include "emu/softhca/wire.hpp"
#include "emu/softhca/work_request.hpp"

namespace softhca {

// Sends one datagram, or waits for a receiver that may have receives which it has not seen yet.
// What nobody takes is dropped, and the request is complete all the same.
Outcome execute_ud(Process& self, QpShared& qp, const WorkRequest& wr, Wire& wire);

} // namespace softhca
