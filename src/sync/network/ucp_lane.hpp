// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A lane over a UCP endpoint, for peers without an HCA: slower, and in the same order. UCP orders
// by flushes alone. So transfers go in groups: a group is started, the endpoint flushed, and what
// has to come behind the data begins the next group.
#pragma once

#include "sync/rings/memory.hpp"
#include "sync/triggers/engine.hpp"

#include <array>

namespace gdr::sync {

class UcpLane final : public Lane {
  public:
    // failure: of the peer; gets the status of a lane that fails.
    UcpLane(Engine& engine, ucp_ep_h ep, std::atomic<int>& failure)
        : engine_(engine), ep_(ep), failure_(failure)
    {
    }

    bool post(const Transfer& transfer) override;
    void submit() override;
    unsigned poll(Retired& retired) override;

  private:
    static constexpr unsigned kMost = 128;

    struct Posted {
        Transfer transfer;
        bool data_sent; // of a put_signal
        uint64_t word;  // on its way out
        bool refused;   // UCP cannot do it
    };

    Posted& posted(uint64_t number) { return posted_[number % kMost]; }
    bool idle() const { return operations_.load(std::memory_order_acquire) == 0; }
    void start_group();
    void start_data(Posted& posted);
    void start_rest(Posted& posted);
    void start_word(Posted& posted, const RemoteMemory& memory, uint64_t offset, size_t length);
    void start_add(Posted& posted, const RemoteMemory& memory, uint64_t offset, void* result);
    void start(const Arguments& arguments, void* result = nullptr);
    static void ended(void* request, ucs_status_t status, void* lane);

    Engine& engine_;
    const ucp_ep_h ep_;
    std::atomic<int>& failure_;

    std::array<Posted, kMost> posted_{};       // a ring
    uint64_t last_ = 0, next_ = 0, first_ = 0; // posted, in a group, not retired
    std::atomic<unsigned> operations_{0};      // of the group, that are not complete
    std::atomic<int> status_{UCS_OK};          // of the first that failed
};

} // namespace gdr::sync
