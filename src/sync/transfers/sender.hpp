// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The side that sends: writes partitions that are ready, and behind them the words by which the
// receiver learns which of its partitions are there.
#pragma once

#include "sync/transfers/prepared.hpp"

#include <vector>

namespace gdr::sync {

class Sender final : public Prepared {
  public:
    // number: of the word in our mailbox that tells what the receiver has started.
    Sender(Engine& engine, Courier& courier, const Plan& plan, ugdr_mem* buffer, uint32_t number);

    uint32_t number() const { return number_; }
    void describe(BlobWriter& letter) const override { letter.add(number_); }
    bool complete(uint64_t iteration) const override
    {
        return complete_.load(std::memory_order_acquire) >= iteration;
    }

    // ---- any thread

    // Takes partitions for an iteration, each once; false: one was taken before.
    bool claim(uint64_t iteration, unsigned first, unsigned count);
    void unclaim(uint64_t iteration, unsigned first, unsigned count);

    // The application makes one ready. Throws Refusal.
    ucs_status_t ready(unsigned partition);

    bool receiver_has_started(uint64_t iteration) const
    {
        return started_.load(std::memory_order_acquire) >= iteration;
    }

    // ---- the engine's thread

    void send(unsigned first, unsigned count);
    // Posts what waits for the receiver. False: that has not started yet.
    bool go_on();
    // The partition may be written to again.
    bool sent(unsigned partition, uint64_t iteration) const
    {
        return sent_[partition] >= iteration;
    }
    void take(const Step& step) override { send(step.first, step.count); }
    void give_back() override;

  private:
    struct Far {
        ugdr_rmem* handle = nullptr;
        const RemoteMemory* memory = nullptr;
    };

    void match_with(BlobReader& described) override;
    void retired(bool flagged) override;
    Far import(BlobReader& described);
    void release(Far& far);
    unsigned parts_of(unsigned receivers) const;
    void build(unsigned partition);
    void add_words(unsigned index);

    ugdr_mem* const buffer_;
    const Memory* const memory_;
    const uint32_t number_;
    std::atomic<uint64_t>& started_;
    Far data_, host_words_, gpu_words_;

    std::vector<std::atomic<uint64_t>> claimed_; // the iteration, for each partition
    std::vector<Step> steps_;                    // of ready()
    std::atomic<uint64_t> complete_{0};

    // For the engine's thread alone.
    std::vector<unsigned> pending_; // ready, the receiver not
    std::vector<unsigned> posted_;  // in this order
    std::vector<uint64_t> sent_;    // the iteration
    std::vector<unsigned> left_;    // of the parts of each of the receiver's partitions
    size_t retired_ = 0;            // of posted_
};

} // namespace gdr::sync
