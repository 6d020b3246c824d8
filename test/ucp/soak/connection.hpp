// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An endpoint and the transfers over it, from either side's initiative. Sides part by agreement, or
// because one of them is gone.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "transfer.hpp"

namespace ucptest {

// Transfers that failed rest here for a while: the other side may not know yet, and its HCA still
// reads and writes their memory.
class Graveyard {
  public:
    void bury(std::unique_ptr<Transfer> transfer);
    void tend();
    bool empty() const { return graves_.empty(); }

  private:
    std::list<std::pair<Clock::time_point, std::unique_ptr<Transfer>>> graves_;
};

class Connection {
  public:
    Connection(Board& board, Worker& worker, const MemoryKinds& kinds, Random& random, bool ours);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // For ucp_ep_create(), whose endpoint is handle().
    void fill(ucp_ep_params_t& params);
    ucp_ep_h& handle() { return ep_; }
    bool closing() const { return stage_ == Stage::kClosing; }

    // Arrived, from callbacks.
    void note(const Note& note, const void* data, size_t length);
    ucs_status_t data(const DataHeader& header, void* data, size_t length, bool rendezvous);

    // May start another transfer, or part: quiet says that it shall. Throws a Failure for wrong
    // bytes and what never ends.
    void step(bool quiet);

    // Nothing of it is left; it goes to its grave.
    bool ended() const;
    void bury(Graveyard& graveyard);

  private:
    struct Message { // a note under way
        Message(Worker& worker, const Note& said, Bytes bytes)
            : note(said), data(std::move(bytes)), operations(worker)
        {
        }
        Note note;
        Bytes data;
        InFlight operations;
    };
    struct Arrived {
        Note note;
        Bytes data;
    };

    void say(const Note& note, Bytes data = {});
    void handle_notes();
    void handle(const Arrived& arrived);
    Transfer* find(uint64_t id, bool initiator);
    void offer();
    void check_transfers();
    std::string text() const;
    void part(bool quiet);
    void close(bool force);

    Board& board_;
    Worker& worker_;
    const MemoryKinds& kinds_;
    Random& random_;
    const bool ours_; // made by this side, and closed by it
    ucp_ep_h ep_ = nullptr;
    ucs_status_t error_ = UCS_OK;
    std::list<Message> said_;
    std::list<Arrived> arrived_;
    std::list<std::unique_ptr<Transfer>> transfers_;
    InFlight closing_;
    enum class Stage { kOpen, kLeaving, kLeft, kClosing } stage_ = Stage::kOpen;
    bool peer_leaves_ = false;
    Clock::time_point deadline_{}; // of parting
};

} // namespace ucptest
