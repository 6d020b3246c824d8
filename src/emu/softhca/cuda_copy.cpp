// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies by the CUDA driver, see cuda_copy.hpp.
#include "emu/softhca/cuda_copy.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/copier.hpp"
#include "emu/softhca/cuda_import.hpp"
#include "emu/softhca/cuda_memory.hpp"
#include "emu/softhca/fabric.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace softhca {
namespace {

struct DeviceStream {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
};

// Made on first use and kept: destroying waits for the device.
DeviceStream stream_of(int device)
{
    constexpr int max_devices = 64;
    static std::mutex mutex;
    static DeviceStream streams[max_devices];
    const std::lock_guard<std::mutex> guard(mutex);
    if (device < 0 || device >= max_devices) {
        return {};
    }
    DeviceStream& own = streams[device];
    const CudaDriver& driver = *cuda_driver();
    if (own.context == nullptr &&
        driver.cuDevicePrimaryCtxRetain(&own.context, device) != CUDA_SUCCESS) {
        own.context = nullptr;
        return {};
    }
    if (own.stream == nullptr) {
        const CurrentContext current(driver, own.context);
        if (!current ||
            driver.cuStreamCreate(&own.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
            own.stream = nullptr;
            return {};
        }
    }
    return own;
}

// How the copier reaches one side of a piece.
struct Side {
    enum Way { here, by_process, by_owner, nowhere } way;
    LocalAddress at; // here
};

SegmentList list_of(const Segment& segment)
{
    SegmentList list;
    list.append(segment.address, segment.length);
    return list;
}

// From one device to another. cuMemcpyAsync would refuse memory of pools and of cuMemCreate, which
// is out of the other device's reach.
bool copy_to_peer(const LocalAddress& source, const LocalAddress& target, std::uint64_t length)
{
    const CudaDriver& driver = *cuda_driver();
    const RelaxedCapture relaxed(driver);
    const DeviceStream own = stream_of(target.device);
    const CUcontext peer = copy_context(source.device);
    if (own.stream == nullptr || peer == nullptr) {
        return false;
    }
    const CurrentContext current(driver, own.context);
    return current &&
           driver.cuMemcpyPeerAsync(target.address, own.context, source.address, peer, length,
                                    own.stream) == CUDA_SUCCESS &&
           driver.cuStreamSynchronize(own.stream) == CUDA_SUCCESS;
}

Moved copy_here(const LocalAddress& source, const LocalAddress& target, std::uint64_t length)
{
    if (source.device >= 0 && target.device >= 0 && source.device != target.device) {
        return copy_to_peer(source, target, length) ? Moved::done : Moved::fault;
    }
    if (source.device < 0 && target.device < 0) {
        std::memmove(reinterpret_cast<void*>(target.address),
                     reinterpret_cast<const void*>(source.address), length);
        return Moved::done;
    }
    return copy_by_cuda(target.device < 0 ? source.device : target.device, target.address,
                        source.address, length)
               ? Moved::done
               : Moved::fault;
}

Side find(Copier& copier, const Segment& segment, int pid)
{
    if (!segment.on_cuda()) {
        return {pid == 0 ? Side::here : Side::by_process, {segment.address, -1}};
    }
    if (pid == 0) {
        return {is_intact(segment) ? Side::here : Side::nowhere,
                {segment.address, segment.region->cuda.device}};
    }
    // Opening memory may wait for kernels, which may wait for this copy.
    if (!config().copy_staged) {
        if (const auto imported = copier.imports().find(segment, pid)) {
            return {Side::here, *imported};
        }
    }
    return {Side::by_owner, {}};
}

// Between a part of one side and the copier's buffer.
Moved load(Copier& copier, const Side& side, const Segment& source, int pid)
{
    const Segment buffer = {copier.buffer(), source.length, nullptr};
    switch (side.way) {
    case Side::here:
        return copy_here(side.at, {buffer.address, -1}, source.length);
    case Side::by_process:
        return move(list_of(source), pid, list_of(buffer), 0);
    default:
        return copier.ask_owner(source, false);
    }
}

Moved store(Copier& copier, const Side& side, const Segment& target, int pid)
{
    const Segment buffer = {copier.buffer(), target.length, nullptr};
    switch (side.way) {
    case Side::here:
        return copy_here({buffer.address, -1}, side.at, target.length);
    case Side::by_process:
        return move(list_of(buffer), 0, list_of(target), pid);
    default:
        return copier.ask_owner(target, true);
    }
}

// Two segments of the same length.
Moved move_piece(Copier& copier, const Segment& source, int source_pid, const Segment& target,
                 int target_pid)
{
    Side from = find(copier, source, source_pid), to = find(copier, target, target_pid);
    if (from.way == Side::nowhere || to.way == Side::nowhere) {
        return Moved::fault;
    }
    // Within one GPU the driver copies by a kernel, which waits for one that has all of the GPU.
    const bool staged = config().copy_staged && from.at.device >= 0 && to.at.device >= 0;
    if (from.way == Side::here && to.way == Side::here && !staged) {
        return copy_here(from.at, to.at, source.length);
    }
    for (std::uint64_t offset = 0; offset < source.length;) {
        const std::uint64_t step = std::min(source.length - offset, Copier::kBufferSize);
        Moved moved =
            load(copier, from, {source.address + offset, step, source.region}, source_pid);
        if (moved == Moved::done) {
            moved = store(copier, to, {target.address + offset, step, target.region}, target_pid);
        }
        if (moved != Moved::done) {
            return moved;
        }
        offset += step;
        from.at.address += step;
        to.at.address += step;
    }
    return Moved::done;
}

} // namespace

CUcontext copy_context(int device)
{
    return stream_of(device).context;
}

bool copy_by_cuda(int device, std::uint64_t target, std::uint64_t source, std::size_t length)
{
    const CudaDriver& driver = *cuda_driver();
    const RelaxedCapture relaxed(driver);
    const DeviceStream own = stream_of(device);
    if (own.stream == nullptr) {
        return false;
    }
    const CurrentContext current(driver, own.context);
    return current && driver.cuMemcpyAsync(target, source, length, own.stream) == CUDA_SUCCESS &&
           driver.cuStreamSynchronize(own.stream) == CUDA_SUCCESS;
}

bool copy_from_device(const Segment& source, void* target)
{
    return is_intact(source) &&
           copy_by_cuda(source.region->cuda.device, reinterpret_cast<std::uint64_t>(target),
                        source.address, source.length);
}

bool copy_to_device(const Segment& target, const void* source, std::size_t length)
{
    return is_intact(target) && copy_by_cuda(target.region->cuda.device, target.address,
                                             reinterpret_cast<std::uint64_t>(source), length);
}

Moved move_by_cuda(const SegmentList& source, int source_pid, const SegmentList& target,
                   int target_pid)
{
    Copier& copier = Process::current()->copier();
    return for_each_piece(source, target, [&](const Segment& from, const Segment& to) {
        return move_piece(copier, from, source_pid, to, target_pid);
    });
}

} // namespace softhca
