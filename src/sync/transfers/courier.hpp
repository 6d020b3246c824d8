// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Carries what prepared transfers have for one peer, in the engine's thread. It notices that the
// peer has died also while this side only waits: then it writes a word there from time to time.
#pragma once

#include "sync/network/network.hpp"
#include "sync/transfers/outbox.hpp"
#include "sync/transfers/step.hpp"
#include "sync/triggers/engine.hpp"

#include <chrono>
#include <vector>

namespace gdr::sync {

class Prepared;
class Sender;

class Courier final : Retired, Outbox {
  public:
    // inbox: what the application's threads have for the engine's.
    Courier(Engine& engine, Handover<Step>& inbox, Peer& peer);
    Courier(const Courier&) = delete;
    Courier& operator=(const Courier&) = delete;
    ~Courier();

    Peer& peer() const { return peer_; }
    const RemoteMemory& far_mailbox() const { return *far_mailbox_; }

    // ---- any thread

    void submit(Step& step)
    {
        inbox_.push(&step);
        engine_.doorbell.ring();
    }

    // ---- the engine's thread

    void add(Prepared& transfer);
    // False: something of it is under way, and it has to stay.
    bool remove(Prepared& transfer);

    // What is in the outbox goes out, as soon as there is room.
    void send(Outbox& outbox);
    // The bytes are in a slot of our mailbox's `out`.
    void send_letter(uint64_t number, uint64_t length);
    // We have taken so many of the peer's.
    void tell_of_letters(uint64_t taken);
    // It has partitions that the receiver must have started for.
    void await_start(Sender& sender) { waiting_.push_back(&sender); }

    unsigned progress();
    bool under_way() const { return under_way_ > 0 || !busy_.empty() || !waiting_.empty(); }
    bool waits() const;

  private:
    void retired(uint64_t ticket, ucs_status_t status) override;
    void retired(bool) override {}
    unsigned post();
    void look_after();
    void fail(ucs_status_t status);

    using Clock = std::chrono::steady_clock;

    Engine& engine_;
    Handover<Step>& inbox_;
    Peer& peer_;
    Lane& lane_;
    const RemoteMemory* const far_mailbox_;
    const Memory* const mailbox_;
    std::vector<Prepared*> transfers_;
    std::vector<Sender*> waiting_;
    std::vector<Outbox*> busy_; // with something to post
    uint64_t under_way_ = 0;    // posted, not complete
    uint64_t taken_ = 0;        // letters, as last told
    unsigned looks_ = 0;
    Clock::time_point heard_of_{}; // the last time that the peer answered, about
    ucs_status_t status_ = UCS_OK;
};

} // namespace gdr::sync
