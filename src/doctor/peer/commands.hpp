// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the doctor has a peer do: a command a line, answered by a line with "ok" or "failed" first.
#pragma once

#include "doctor/peer/peer.hpp"

#include <string>

namespace gdr::peer {

// "ok ADDRESS GPUS", which a peer says by itself.
std::string introduction(const Peer& peer);
std::string answer(Peer& peer, const std::string& line);

} // namespace gdr::peer
