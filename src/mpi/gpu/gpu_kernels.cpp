// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/gpu_kernels.hpp"

#include "log/log.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>

namespace gdr::mpi {

namespace {

void tell_once(const std::exception& error)
{
    static std::atomic_flag told = ATOMIC_FLAG_INIT;
    if (!told.test_and_set()) {
        gdr_log(warn,
                "a kernel for MPI calls on GPU memory cannot be used: %s. Calls that need it are "
                "staged through host memory: same result, slower. If CUDA did not load it, try a "
                "newer driver; data without gaps need no packing",
                error.what());
    }
}

// Whether the runs are equal and at equal distances, so that one more loop expresses them.
bool regular(const Runs& runs)
{
    for (size_t i = 1; i < runs.size(); ++i) {
        Run expected = runs[0];
        expected.offset += (runs[1].offset - runs[0].offset) * static_cast<intptr_t>(i);
        if (!(runs[i] == expected)) {
            return false;
        }
    }
    return true;
}

kernels::Layout layout_of(const Elements& elements)
{
    const Runs& runs = elements.runs;
    if (regular(runs)) {
        const kernels::Dimension loops[] = {
            {runs[0].rows, runs[0].stride},
            {runs.size(), runs.size() > 1 ? runs[1].offset - runs[0].offset : 0}};
        return kernels::Layout::strided(runs[0].offset, runs[0].length, loops, elements.extent);
    }
    std::vector<kernels::Block> blocks;
    for (const Run& run : runs) {
        for (size_t row = 0; row < run.rows; ++row) {
            blocks.push_back({run.offset + run.stride * static_cast<intptr_t>(row), run.length});
        }
    }
    return kernels::Layout::list(blocks, elements.extent);
}

} // namespace

GpuKernels::GpuKernels(const cuda::Driver& driver, const ThreadStream& stream)
    : context_(stream.context()), context_id_(stream.context_id()),
      pack_(driver, context_, kernels::pack_ptx), reduce_(driver, context_, kernels::reduce_ptx)
{
}

GpuKernels& GpuKernels::of(const cuda::Driver& driver, const ThreadStream& stream)
{
    static auto& mutex = *new std::mutex;
    static auto& all = *new std::map<CUdevice, GpuKernels*>; // CUDA may end before the process
    const std::lock_guard guard(mutex);
    GpuKernels*& kernels = all[stream.device()];
    // Kernels of a context that has ended went with it.
    if (kernels == nullptr || kernels->context_ != stream.context() ||
        kernels->context_id_ != stream.context_id()) {
        kernels = new GpuKernels(driver, stream);
    }
    return *kernels;
}

bool GpuKernels::reach(const ThreadStream& stream, const cuda::Pointer& memory, uintptr_t begin,
                       uintptr_t end)
{
    return memory.kind == cuda::MemoryKind::device && memory.device == stream.device() &&
           (memory.context == nullptr || memory.context == stream.context()) &&
           begin >= memory.base && end <= memory.end();
}

std::shared_ptr<const kernels::Packing> GpuKernels::packing(const Elements& elements,
                                                            const void* buffer)
{
    if (!kernels::built()) {
        return nullptr;
    }
    try {
        auto packing = known_packing(elements);
        if (!packing) {
            packing = make_packing(elements);
        }
        packing->prepare(buffer, static_cast<uint64_t>(elements.count));
        return packing;
    } catch (const std::exception& error) {
        tell_once(error);
        return nullptr;
    }
}

std::shared_ptr<const kernels::Packing> GpuKernels::make_packing(const Elements& elements)
{
    std::list<Known> made, forgotten; // destroyed after the lock is released
    made.push_front({elements.runs, elements.extent,
                     std::make_shared<const kernels::Packing>(pack_, layout_of(elements))});
    auto packing = made.front().packing;
    const std::lock_guard guard(mutex_);
    packings_.splice(packings_.begin(), made); // also if another thread has made the same one
    if (packings_.size() > kMostPackings) {
        forgotten.splice(forgotten.begin(), packings_, std::prev(packings_.end()));
    }
    return packing;
}

std::shared_ptr<const kernels::Packing> GpuKernels::known_packing(const Elements& elements)
{
    const std::lock_guard guard(mutex_);
    const auto known = std::ranges::find_if(packings_, [&](const Known& packing) {
        return packing.extent == elements.extent && packing.runs == elements.runs;
    });
    if (known == packings_.end()) {
        return nullptr;
    }
    packings_.splice(packings_.begin(), packings_, known);
    return known->packing;
}

const kernels::Reduction* GpuKernels::reduction(kernels::Operation operation, kernels::Type type)
{
    if (!kernels::built()) {
        return nullptr;
    }
    const std::pair key(operation, type);
    std::unique_lock guard(mutex_);
    if (const auto known = reductions_.find(key); known != reductions_.end()) {
        return &known->second;
    }
    guard.unlock();
    try {
        const kernels::Reduction made(reduce_, operation, type);
        guard.lock();
        return &reductions_.try_emplace(key, made).first->second;
    } catch (const std::exception& error) {
        tell_once(error);
        return nullptr;
    }
}

} // namespace gdr::mpi
