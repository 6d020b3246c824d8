// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How fast a port is.
#pragma once

namespace gdr::verbs {

// The bit of a port's speed. XDR does not fit the 8 bits of active_speed: newer rdma-core releases
// have active_speed_ex for it. 0 there: the kernel or libibverbs does not report the speed.
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

// Data rate after encoding, in bytes per second. speed: active_speed(). width: the bit of the
// width. shown: the Gb/s that sysfs shows (0: none), used if the verbs report no speed or the
// fastest that 8 bits hold.
double data_rate(unsigned speed, unsigned width, double shown);

} // namespace gdr::verbs
