// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI layer's kernels on a GPU: packings of the types used last, and reductions. The first call
// that needs them loads them. Any thread.
#pragma once

#include "cuda/pointer.hpp"
#include "kernels/packing.hpp"
#include "kernels/reduction.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/interface/footprint.hpp"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace gdr::mpi {

class GpuKernels {
  public:
    // The kernels of the stream's GPU, which stay forever.
    static GpuKernels& of(const cuda::Driver& driver, const ThreadStream& stream);

    // Whether a kernel in the GPU's primary context can access these addresses: one allocation must
    // hold them all, and it must not belong to another context.
    static bool reach(const ThreadStream& stream, const cuda::Pointer& memory, uintptr_t begin,
                      uintptr_t end);

    // A packing for elements of a type, prepared for this count and buffer. Packings are recognised
    // by the location of their bytes, not by the type's handle, which MPI may reuse. nullptr in a
    // build without kernels, and if they cannot be loaded, which is logged once.
    std::shared_ptr<const kernels::Packing> packing(const Elements& elements, const void* buffer);

    // nullptr in the same cases. The operation must be defined for the type.
    const kernels::Reduction* reduction(kernels::Operation operation, kernels::Type type);

    GpuKernels(const cuda::Driver& driver, const ThreadStream& stream);

  private:
    static constexpr size_t kMostPackings = 64;

    struct Known {
        Runs runs;
        intptr_t extent;
        std::shared_ptr<const kernels::Packing> packing;
    };

    std::shared_ptr<const kernels::Packing> known_packing(const Elements& elements);
    std::shared_ptr<const kernels::Packing> make_packing(const Elements& elements);

    CUcontext context_;
    unsigned long long context_id_;
    kernels::LoadedKernels pack_;
    kernels::LoadedKernels reduce_;
    // Not held while packings are made or destroyed, which may wait for the GPU.
    std::mutex mutex_;
    std::list<Known> packings_; // most recently used first
    std::map<std::pair<kernels::Operation, kernels::Type>, kernels::Reduction> reductions_;
};

} // namespace gdr::mpi
