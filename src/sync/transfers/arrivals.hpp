// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The words by which a receiver sees what has arrived: one for each partition, and one for all if
// there are several. The sender sets each to the number of the iteration. They are in host memory,
// which a GPU of this process reads, too. Data in a GPU's memory has the same words there once
// more: words of the host could be seen too early.
#pragma once

#include "sync/network/blob.hpp"
#include "sync/network/network.hpp"
#include "sync/triggers/stream.hpp"
#include "sync/triggers/words.hpp"

#include <memory>
#include <optional>

namespace gdr::sync {

class Arrivals {
  public:
    // gpu: the data is in the memory of the current context's. Throws std::exception.
    Arrivals(Network& network, bool gpu, unsigned partitions);
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;

    // What the sender needs.
    void describe(BlobWriter& letter) const;

    unsigned all() const { return count_ - 1; } // the index of the word of all
    uint64_t of(unsigned index) const
    {
        return words_[index].value.load(std::memory_order_acquire);
    }

    // For kernels: the iteration that has begun, and a status behind it.
    void set_iteration(uint64_t iteration)
    {
        words_[count_].value.store(iteration, std::memory_order_release);
    }

    // Lets everybody go on for good.
    void end(ucs_status_t status);

    // CUDA's context; nullptr: there is none, and streams and kernels cannot look.
    CUcontext context() const { return context_; }
    const Abilities& abilities() const { return abilities_; }
    bool on_gpu() const { return gpu_memory_ != nullptr; }
    // As streams and kernels have them.
    CUdeviceptr words() const;
    CUdeviceptr iteration() const;

    void give_back(Network& network);

  private:
    const unsigned count_;
    CUcontext context_ = nullptr;
    Abilities abilities_;
    std::optional<Taken<Word>> pinned_;
    std::optional<TakenCounters> on_gpu_;
    std::unique_ptr<Word[]> heap_;
    Word* words_ = nullptr;
    ugdr_mem* memory_ = nullptr;
    ugdr_mem* gpu_memory_ = nullptr;
};

} // namespace gdr::sync
