// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Costs measured through this interface on one NVIDIA H200; docs/results/gpus.md has the table.
//
// SHORT and ZCOPY take the same time. Managed memory resident on the device is copied as fast as
// device memory.

#include "copy/performance.hpp"

#include <cstdint>

namespace gdr::copy {

namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;

struct Cost {
    double whole;     // seconds of a copy without its bytes
    double posting;   // the part of whole during which posting keeps the CPU busy
    double bandwidth; // bytes per second
};

// SHORT serves UCP's bounce buffers, which are not pinned for CUDA, in fragments of about 8 KiB:
// the line goes through the times of 4 KiB and 64 KiB.
constexpr Cost kPageableToDevice = {6.6 * kMicrosecond, 6.6 * kMicrosecond, 7.6 * kGigabyte};
constexpr Cost kDeviceToPageable = {8.6 * kMicrosecond, 8.6 * kMicrosecond, 11 * kGigabyte};

// The same by the CPU through gdrcopy, with the numbers of UCX's own gdrcopy transport, not
// measured here. The CPU reads device memory only for the smallest messages, and UCP asks for one
// line for all sizes, so reads keep CUDA's cost.
constexpr Cost kMappedToDevice = {0.4 * kMicrosecond, 0.4 * kMicrosecond, 6.9 * kGigabyte};

// ZCOPY serves the fragments of a staged message, 512 KiB each by default, in pinned buffers. The
// fixed part is that of small copies: if it were less, UCP would stage small messages that CUDA IPC
// or the HCA could take. The rate is below that of such a fragment (36 GB/s) and of long copies (55
// GB/s), because UCP counts a fragment's fixed part once for the whole message, and would believe
// that staging a large message beats sending it directly.
constexpr Cost kPinnedToDevice = {6.8 * kMicrosecond, 1.2 * kMicrosecond, 24 * kGigabyte};
constexpr Cost kDeviceToPinned = {6.3 * kMicrosecond, 1.3 * kMicrosecond, 24 * kGigabyte};

constexpr Cost kDeviceToDevice = {8.3 * kMicrosecond, 3.1 * kMicrosecond, 2000 * kGigabyte};
constexpr Cost kHostToHost = {0.5 * kMicrosecond, 0.5 * kMicrosecond,
                              20 * kGigabyte}; // one system call

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

abi::PerfEstimate estimate(const abi::PerfQuery& query, bool mapped)
{
    if (query.operation == abi::EpOperation::other) {
        return typical_estimate();
    }
    bool local_host = query.local_memory_type == UCS_MEMORY_TYPE_HOST;
    bool remote_host = query.remote_memory_type == UCS_MEMORY_TYPE_HOST;
    bool synchronous = is_short(query.operation);

    Cost cost = kDeviceToDevice;
    if (local_host && remote_host) {
        cost = kHostToHost;
    } else if (local_host || remote_host) {
        bool to_device = local_host != is_fetch(query.operation);
        if (mapped && query.operation == abi::EpOperation::put_short && local_host) {
            cost = kMappedToDevice;
        } else if (synchronous) {
            cost = to_device ? kPageableToDevice : kDeviceToPageable;
        } else {
            cost = to_device ? kPinnedToDevice : kDeviceToPinned;
        }
    }

    abi::PerfEstimate answer = {};
    answer.send_pre_overhead = synchronous ? cost.whole : cost.posting;
    answer.latency = synchronous ? 0 : cost.whole - cost.posting;
    answer.bandwidth_shared = cost.bandwidth;
    answer.max_inflight_eps = SIZE_MAX;
    return answer;
}

abi::PerfEstimate typical_estimate()
{
    return estimate({abi::EpOperation::put_zcopy, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA,
                     UCS_SYS_DEVICE_ID_UNKNOWN, UCS_SYS_DEVICE_ID_UNKNOWN},
                    false);
}

} // namespace gdr::copy
