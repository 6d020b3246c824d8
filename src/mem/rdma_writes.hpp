// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What HCAs have written to GPUs that see it only after a flush
// (CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE). Where a completion tells that data are there, they are
// flushed before anybody learns of it: work that runs on the GPU already may be waiting for no more
// than that news. One for the process: news of one HCA's writes may come by another.
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

    // A GPU that needs it.
    void add(CUdevice gpu);

    // Whether flush() has something to do: not before memory of such a GPU was registered.
    bool needed() const { return needed_.load(); }

    // Memory of the GPU is about to be registered. Where it needs it, its primary context is held
    // from now on. Throws cuda::Error.
    void begin(const cuda::Driver& driver, CUdevice gpu);

    // Sets a flag when needed() becomes true, and at once where it is.
    class Watch {
      public:
        explicit Watch(std::atomic<bool>& flag);
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch();

      private:
        std::atomic<bool>& flag_;
    };

    // All that was written before is visible on its GPU. CUDA_SUCCESS, or the first error.
    CUresult flush() const;

  private:
    static constexpr size_t kMost = 64; // GPUs

    std::atomic<bool> needed_{false};
    std::mutex lock_;
    std::set<CUdevice> unordered_;
    std::set<std::atomic<bool>*> watches_;
    // Of those whose memory was registered.
    std::array<std::unique_ptr<cuda::PrimaryContext>, kMost> contexts_;
    std::atomic<size_t> count_{0};
};

} // namespace gdr::mem
