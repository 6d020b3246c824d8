// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Costs measured on one NVIDIA H200 on PCIe 5 x16 (driver 580, CUDA 13.0): medians of
// asynchronous copies on an own non-blocking stream in a primary context.
//
//                          8 B       4 KiB     64 KiB    1 MiB     32 MiB    posting alone
//   host to device         5.3 us    6.4 us    8.3 us    26 us     611 us    1.1 us
//   device to host         6.0 us    6.1 us    7.2 us    25 us     611 us    1.1 us
//   device to device       7.9 us    8.0 us    8.2 us    8.4 us    25 us     2.9 us
//   host to device, from pageable memory
//                          5.3 us    6.4 us    14.5 us   72 us     1.8 ms    1.0 us .. 1.8 ms
//   device to host, to pageable memory
//                          6.3 us    6.8 us    12.1 us   82 us     1.8 ms    all of it
//
// Managed memory resident on the device measured as device memory.

#include "copy/performance.hpp"

#include <cstdint>

namespace gdr::copy {

namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;

// Seconds that a copy takes apart from its bytes, and the part of them that posting it keeps the
// CPU busy.
struct FixedCost {
    double whole;
    double posting;
};

constexpr FixedCost kHostToDevice = {5.3 * kMicrosecond, 1.1 * kMicrosecond};
constexpr FixedCost kDeviceToHost = {6.0 * kMicrosecond, 1.1 * kMicrosecond};
constexpr FixedCost kDeviceToDevice = {7.9 * kMicrosecond, 2.9 * kMicrosecond};
constexpr FixedCost kHostToHost = {0.5 * kMicrosecond, 0.5 * kMicrosecond}; // one system call

// Bytes per second. SHORT serves UCP's bounce buffers, which CUDA has not pinned; ZCOPY serves
// buffers registered with the domain, which it has.
constexpr double kPageable = 18 * kGigabyte;
constexpr double kPinned = 55 * kGigabyte;
constexpr double kWithinDevice = 2000 * kGigabyte;
constexpr double kHost = 20 * kGigabyte;

bool is_fetch(abi::EpOperation operation)
{
    return operation == abi::EpOperation::get_short || operation == abi::EpOperation::get_bcopy ||
           operation == abi::EpOperation::get_zcopy;
}

bool is_short(abi::EpOperation operation)
{
    return operation == abi::EpOperation::get_short || operation == abi::EpOperation::put_short;
}

} // namespace

abi::PerfEstimate estimate(const abi::PerfQuery& query)
{
    if (query.operation == abi::EpOperation::other)
        return typical_estimate();
    bool local_host = query.local_memory_type == UCS_MEMORY_TYPE_HOST;
    bool remote_host = query.remote_memory_type == UCS_MEMORY_TYPE_HOST;
    bool synchronous = is_short(query.operation);

    FixedCost cost = kDeviceToDevice;
    double bandwidth = kWithinDevice;
    if (local_host && remote_host) {
        cost = kHostToHost;
        bandwidth = kHost;
    } else if (local_host || remote_host) {
        bool to_device = local_host != is_fetch(query.operation);
        cost = to_device ? kHostToDevice : kDeviceToHost;
        bandwidth = synchronous ? kPageable : kPinned;
    }

    abi::PerfEstimate answer = {};
    answer.send_pre_overhead = synchronous ? cost.whole : cost.posting;
    answer.latency = synchronous ? 0 : cost.whole - cost.posting;
    answer.bandwidth_shared = bandwidth;
    answer.max_inflight_eps = SIZE_MAX;
    return answer;
}

abi::PerfEstimate typical_estimate()
{
    return estimate({abi::EpOperation::put_zcopy, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA,
                     UCS_SYS_DEVICE_ID_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN});
}

} // namespace gdr::copy
