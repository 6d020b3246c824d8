// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Costs measured through this interface on one NVIDIA H200; docs/design.md has the table.
//
// SHORT and ZCOPY take the same time. Managed memory resident on the device is copied as device
// memory is.

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

constexpr FixedCost kPinnedToDevice = {1.2 * kMicrosecond, 1.2 * kMicrosecond};
constexpr FixedCost kDeviceToPinned = {1.3 * kMicrosecond, 1.3 * kMicrosecond};
constexpr FixedCost kPageableToDevice = {6.0 * kMicrosecond, 6.0 * kMicrosecond};
constexpr FixedCost kDeviceToPageable = {8.3 * kMicrosecond, 8.3 * kMicrosecond};
constexpr FixedCost kDeviceToDevice = {8.3 * kMicrosecond, 3.1 * kMicrosecond};
constexpr FixedCost kHostToHost = {0.5 * kMicrosecond, 0.5 * kMicrosecond}; // one system call

// Bytes per second of large copies. SHORT serves UCP's bounce buffers, which are not pinned for
// CUDA. ZCOPY serves the fragments of a staged message, 512 KiB each by default, in buffers that
// are pinned: 15.8 us a fragment, of which posting is counted above. The rate is that of such a
// fragment and not the 55 GB/s of long copies, because UCP takes the cost of one fragment, counts
// what is fixed in it once for the whole message, and would believe that staging a large message
// beats sending it directly.
constexpr double kPageable = 18 * kGigabyte;
constexpr double kPinnedFragment = 36 * kGigabyte;
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
        if (synchronous)
            cost = to_device ? kPageableToDevice : kDeviceToPageable;
        else
            cost = to_device ? kPinnedToDevice : kDeviceToPinned;
        bandwidth = synchronous ? kPageable : kPinnedFragment;
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
