// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the MPI layer has made ready on a GPU to be run there: packings of the types that were used
// last, and reductions. Loaded by the first call that needs them. Any thread.
#pragma once

#include "cuda/pointer.hpp"
#include "kernels/packing.hpp"
#include "kernels/reduction.hpp"
#include "mpi/gpu/thread_stream.hpp"
#include "mpi/library/footprint.hpp"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace gdr::mpi {

class GpuKernels {
  public:
    // Those of the stream's GPU, for good.
    static GpuKernels& of(const cuda::Driver& driver, const ThreadStream& stream);

    // Whether a kernel in the GPU's primary context can touch these addresses: they are all in one
    // allocation, and no other context's.
    static bool reach(const ThreadStream& stream, const cuda::Pointer& memory, uintptr_t begin,
                      uintptr_t end);

    // Of elements of a type, whatever their number, and ready for these, at the buffer: recognised
    // by where their bytes are, so that it makes no difference when MPI gives a type's handle out
    // again. nullptr in a build without kernels, and where they cannot be loaded, which is said
    // once in UCX's log.
    std::shared_ptr<const kernels::Packing> packing(const Elements& elements, const void* buffer);

    // nullptr likewise. The operation is defined for the type.
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
    // What is made, or forgotten, may wait for the GPU: that is done without it.
    std::mutex mutex_;
    std::list<Known> packings_; // used last: first
    std::map<std::pair<kernels::Operation, kernels::Type>, kernels::Reduction> reductions_;
};

} // namespace gdr::mpi
