// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an interface does besides polling when it is called for attention: events of the handshake
// and of the port, endpoints that fail or end.
#pragma once

#include <cstdint>

namespace gdr::rc {

struct Iface;
class WindowCredit;

// Returns how many things were done.
unsigned handle_attention(Iface& iface);

// An accepted queue pair, which may have been accepted just now; NULL: none.
WindowCredit* find_window_credit(Iface& iface, uint32_t qpn);

} // namespace gdr::rc
