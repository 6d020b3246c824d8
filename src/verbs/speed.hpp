// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How fast a port is.
#pragma once

namespace gdr::verbs {

// The bit of a port's speed. XDR's needs more than the 8 bits of active_speed: an rdma-core that
// knows it has it in active_speed_ex. 0 there: the kernel, or libibverbs, does not tell.
template <class Attributes> // ibv_port_attr
unsigned active_speed(const Attributes& attributes)
{
    if constexpr (requires { attributes.active_speed_ex; }) {
        if (attributes.active_speed_ex != 0) {
            return attributes.active_speed_ex;
        }
    }
    return attributes.active_speed;
}

// Data rate after encoding, bytes per second, by active_speed() and the bit of the width, and by
// the Gb/s that sysfs shows (0: none), where the verbs tell no speed or the fastest that 8 bits
// hold.
double data_rate(unsigned speed, unsigned width, double shown);

} // namespace gdr::verbs
