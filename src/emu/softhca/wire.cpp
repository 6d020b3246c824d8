// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The modelled wire, see wire.hpp.
#include "emu/softhca/wire.hpp"

#include "emu/softhca/config.hpp"

#include <cmath>

namespace softhca {
namespace {

// Waits for a side of a port to be free, takes it for so long, and returns from when on.
std::uint64_t reserve(std::atomic<std::uint64_t>& free_from, std::uint64_t start,
                      std::uint64_t duration)
{
    std::uint64_t former = free_from.load(std::memory_order_relaxed), begin;
    do {
        begin = former > start && former - start < kLongest ? former : start;
    } while (!free_from.compare_exchange_weak(former, begin + duration, std::memory_order_relaxed));
    return begin;
}

} // namespace

PortModel port_model(unsigned device)
{
    const PortSettings& port = config().ports[device];
    PortModel model = {};
    model.latency = static_cast<std::uint64_t>(std::llround(port.latency_us * 1e3));
    if (port.bandwidth_gbps > 0) {
        model.femtoseconds_per_byte =
            static_cast<std::uint64_t>(std::llround(8e6 / port.bandwidth_gbps));
    }
    if (port.message_rate > 0) {
        model.gap = static_cast<std::uint64_t>(std::llround(1e9 / port.message_rate));
    }
    model.is_on = model.latency != 0 || model.femtoseconds_per_byte != 0 || model.gap != 0;
    return model;
}

std::uint64_t Wire::depart(const PortModel& from, unsigned port, std::uint64_t start,
                           std::uint64_t bytes)
{
    return reserve(fabric_.traffic[port].sending, start, std::max(duration(from, bytes), from.gap));
}

std::uint64_t Wire::carry(const PortModel& from, unsigned from_port, const PortModel& to,
                          unsigned to_port, std::uint64_t start, std::uint64_t bytes)
{
    // The slower port sets the pace. Both are taken for the same time: latencies are added in the
    // end, so that no port stands idle for what is still on its way to it.
    const std::uint64_t departs = depart(from, from_port, start, bytes);
    const std::uint64_t lasts = std::max(duration(from, bytes), duration(to, bytes));
    return reserve(fabric_.traffic[to_port].receiving, departs, lasts) + lasts + from.latency;
}

} // namespace softhca
