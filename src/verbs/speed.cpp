// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// InfiniBand speeds and widths; RoCE ports report them too.
#include "verbs/speed.hpp"

#include <algorithm>

namespace gdr::verbs {
namespace {

constexpr unsigned kNdr = 128; // in 8 bits the kernel also reports all faster speeds so
constexpr double kEdrLane = 25.78125 * 64 / 66;
constexpr double kXdrLane = 200.0;

// Gb/s of one lane, after 8b/10b or 64b/66b encoding; 0: unknown.
double lane_rate(unsigned active_speed)
{
    switch (active_speed) {
    case 1: // SDR
        return 2.0;
    case 2: // DDR
        return 4.0;
    case 4: // QDR
        return 8.0;
    case 8: // FDR10
        return 10.3125 * 64 / 66;
    case 16: // FDR
        return 14.0625 * 64 / 66;
    case 32: // EDR
        return kEdrLane;
    case 64: // HDR
        return 50.0;
    case kNdr:
        return 100.0;
    case 256: // XDR
        return kXdrLane;
    default:
        return 0;
    }
}

unsigned lanes(unsigned active_width)
{
    switch (active_width) {
    case 1:
        return 1;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default: // also the width of ports that report none
        return 4;
    }
}

// UCX chooses between ports by their rates, so an unknown rate must not count as the slowest.
double guessed_lane_rate(unsigned speed)
{
    return speed > kNdr ? kXdrLane : kEdrLane;
}

} // namespace

double data_rate(unsigned speed, unsigned width, double shown)
{
    double rate = lane_rate(speed) * lanes(width);
    if (speed == kNdr) {
        rate = std::max(rate, shown);
    } else if (rate == 0) {
        rate = shown != 0 ? shown : guessed_lane_rate(speed) * lanes(width);
    }
    return rate * 1e9 / 8;
}

} // namespace gdr::verbs
