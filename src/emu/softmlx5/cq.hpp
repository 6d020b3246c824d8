// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A completion queue in the program's memory, over one of softhca's: its completions become entries
// (mlx5_cqe64) there. The program says in the queue's record up to where it has polled, and from
// where on it wants an event.
#pragma once

#include "emu/softhca/cq.hpp"
#include "emu/softmlx5/abi.hpp"
#include "emu/softmlx5/event_pipe.hpp"

#include <cstdint>
#include <memory>

namespace softmlx5 {

class Adapter;

using CompletionChannel = EventPipe<ib_uverbs_comp_event_desc>;
using AsyncChannel = EventPipe<ib_uverbs_async_event_desc>;

// What a CREATE_CQ names.
struct CqRequest {
    std::uint64_t user_handle;
    std::uint32_t cqe;
    bool ignores_overrun;
    mlx5_ib_create_cq memory;
};

class Cq {
  public:
    // Where it tells of completions and of its overrun; null: nowhere.
    Cq(ibv_cq& hca, const CqRequest& request, std::shared_ptr<CompletionChannel> channel,
       std::shared_ptr<AsyncChannel> async);
    ~Cq();
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    ibv_cq& hca() { return hca_; }
    std::uint64_t user_handle() const { return user_handle_; }

    // Takes over what has completed; false if nothing has.
    bool collect(Adapter& adapter);
    // Appends an entry, of which the queue's part is still missing. Syndrome: 0, or the opcode is
    // one of an error.
    void append(mlx5_cqe64& entry, std::uint8_t opcode, std::uint8_t syndrome = 0,
                const softhca::Payload& payload = {});
    // How long a message an entry has room for: at its own start, or before it.
    std::uint8_t room() const { return entry_size_ == sizeof(mlx5_cqe64) ? 32 : 64; }
    // Writes the event that the program waits for, if it is due.
    void notify();
    // By this from now on, as the handle.
    void notify_by(std::shared_ptr<CompletionChannel> channel, std::uint64_t user_handle)
    {
        channel_ = std::move(channel);
        user_handle_ = user_handle;
    }
    // An entry is lost, and nothing comes any more.
    void report_overrun();

    // Entries that the program has not polled, as far as it has said.
    std::uint32_t unpolled() const;
    // Moves to this ring of so many entries; what the former still has is copied by libmlx5.
    void resize(const mlx5_ib_resize_cq& memory, std::uint32_t entries);

    // How many events were read, as libibverbs awaits their acknowledgement; none come any more.
    ib_uverbs_destroy_cq_resp end();

  private:
    void translate(Adapter& adapter, const ibv_wc& wc, const softhca::Payload& payload);

    ibv_cq& hca_;
    std::uint64_t user_handle_;
    std::uint8_t* ring_;
    std::uint32_t* const record_; // big-endian: polled up to, armed from
    std::uint32_t entry_size_, entries_;
    const bool ignores_overrun_;
    std::shared_ptr<CompletionChannel> channel_;
    std::shared_ptr<AsyncChannel> async_;
    std::uint32_t produced_ = 0;
    bool overrun_ = false;
    bool solicited_ = false;             // since the latest event
    std::uint64_t latest_solicited_ = 0; // softhca's position
    std::uint32_t completion_events_ = 0, async_events_ = 0;
};

} // namespace softmlx5
