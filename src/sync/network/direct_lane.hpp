// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A lane over a queue pair of the library's own.
#pragma once

#include "direct/queue_pair.hpp"
#include "sync/rings/memory.hpp"

#include <array>
#include <string>

namespace gdr::sync {

class DirectLane final : public Lane {
  public:
    // Connects the queue pair. failure: of the peer; gets the status of a lane that fails. Throws
    // std::exception.
    DirectLane(direct::QueuePair queue_pair, const direct::QueuePairAddress& peer,
               std::atomic<int>& failure);

    bool post(const Transfer& transfer) override;
    void submit() override;
    unsigned poll(Retired& retired) override;

  private:
    // Work requests that go out together; the last of them asks for a completion.
    static constexpr unsigned kBatch = 64;

    struct Posted {
        uint64_t ticket;
        uint64_t end; // work requests up to its last one
        ucs_status_t status;
    };

    unsigned work_requests_of(const Transfer& transfer) const;
    // Whether the HCAs can do it; what they cannot would end the connection.
    ucs_status_t check(const Transfer& transfer) const;
    void build(const Transfer& transfer);
    ibv_send_wr& add(ibv_wr_opcode opcode, uint64_t remote, uint32_t key);
    void add_data(ibv_wr_opcode opcode, const Transfer& transfer);
    void add_word(const RemoteMemory& memory, uint64_t offset, uint64_t value, uint32_t length);
    void add_atomic(const RemoteMemory& memory, uint64_t offset, uint64_t value, uint64_t result,
                    uint32_t result_key);
    // Both rings are as long as the queue pair is deep, which is a power of two.
    uint64_t* word_of(uint64_t work_request) { return &words_[work_request & (words_.size() - 1)]; }
    Posted& posted(uint64_t number) { return posted_[number & (posted_.size() - 1)]; }
    uint32_t key_of(const RemoteMemory& memory) const { return memory.keys[remote_hca_]; }
    void fail(ucs_status_t status, const std::string& cause);

    direct::QueuePair queue_pair_;
    const unsigned remote_hca_;
    const bool atomics_;
    std::atomic<int>& failure_;
    ucs_status_t status_ = UCS_OK;

    std::array<ibv_send_wr, kBatch> requests_{};
    std::array<ibv_sge, kBatch> pieces_{};
    unsigned batched_ = 0;

    // A word for each work request: a value on its way out, or the result of an atomic that nobody
    // wants.
    std::vector<uint64_t> words_;
    verbs::MemoryRegion words_region_;

    uint64_t built_ = 0, complete_ = 0; // work requests
    std::vector<Posted> posted_;        // a ring
    uint64_t last_ = 0, first_ = 0;     // transfers in it
};

} // namespace gdr::sync
