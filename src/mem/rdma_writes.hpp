// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Flushes HCA writes on GPUs that see them only after a flush
// (CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE). If a completion says that data have arrived, they are
// flushed before anybody learns of it, because running GPU work may be waiting for that news. One
// instance per process, because news of one HCA's writes may come through another HCA.
#pragma once

#include "cuda/context.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>

namespace gdr::mem {

// Any thread may call any member.
class RdmaWrites {
  public:
    static RdmaWrites& instance();

    // Adds a GPU that needs flushes.
    void add(CUdevice gpu);

    // Whether flush() has anything to do; false until memory of such a GPU is registered.
    bool needed() const { return needed_.load(); }

    // To be called before memory of the GPU is registered. If the GPU needs flushes, its primary
    // context is held from now on. Throws cuda::Error.
    void begin(const cuda::Driver& driver, CUdevice gpu);

    // Sets a flag when needed() becomes true, or at once if it is.
    class Watch {
      public:
        explicit Watch(std::atomic<bool>& flag);
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch();

      private:
        std::atomic<bool>& flag_;
    };

    // Makes all earlier writes visible on their GPUs. Returns CUDA_SUCCESS or the first error.
    CUresult flush() const;

  private:
    static constexpr size_t kMost = 64; // GPUs

    std::atomic<bool> needed_{false};
    std::mutex lock_;
    std::set<CUdevice> unordered_;
    std::set<std::atomic<bool>*> watches_;
    // For GPUs whose memory was registered.
    std::array<std::unique_ptr<cuda::PrimaryContext>, kMost> contexts_;
    std::atomic<size_t> count_{0};
};

} // namespace gdr::mem
