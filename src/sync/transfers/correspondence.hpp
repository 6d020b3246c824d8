// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How the two sides of prepared transfers find each other: each tells the other side of its
// transfers by letters, in the order in which they were created, and pairs them by tag in that
// order.
#pragma once

#include "sync/transfers/prepared.hpp"

#include <functional>
#include <list>
#include <vector>

namespace gdr::sync {

// Of one peer. One thread at a time.
class Correspondence {
  public:
    // leave: the courier is no longer to be served.
    Correspondence(Engine& engine, Handover<Step>& inbox, Peer& peer,
                   std::function<void(Courier&)> leave);
    Correspondence(const Correspondence&) = delete;
    Correspondence& operator=(const Correspondence&) = delete;
    ~Correspondence() { leave_(courier); }

    Courier courier;

    // Tells the other side of the transfer. Throws Refusal.
    void offer(Prepared& transfer);
    // Reads what has come, sends what there is room for, and pairs.
    void go_on();
    // Whether the other side can read all that we have told: who is paired does not come again.
    bool all_sent() const { return letters_.empty(); }
    // It is not to be paired any more.
    void forget(Prepared& transfer) { unmatched_.remove(&transfer); }

    // Words of the mailbox, for senders. Throws Refusal.
    uint32_t take_number();
    void give_number_back(uint32_t number) { numbers_.push_back(number); }

  private:
    using Letter = std::vector<uint8_t>;
    struct Offer {
        Plan plan;
        Letter letter;
    };

    void read();
    void send();
    void pair(Prepared& transfer, const Letter& letter);

    Engine& engine_;
    Mailbox& mailbox_;
    const std::function<void(Courier&)> leave_;
    std::list<Prepared*> unmatched_; // ours
    std::list<Offer> offers_;        // theirs, unmatched
    std::list<Letter> letters_;      // to be sent
    uint64_t sent_ = 0, read_ = 0;   // letters
    std::vector<uint32_t> numbers_;
};

} // namespace gdr::sync
