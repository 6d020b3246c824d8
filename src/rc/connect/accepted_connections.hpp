// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The queue pairs that an interface made for its peers' endpoints. Their number is limited, in all
// and for each peer. Peers are asked from time to time whether they still exist, so that what a
// killed process left behind is removed.
#pragma once

#include "rc/connect/address.hpp"
#include "verbs/queue_pair.hpp"

#include <chrono>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace gdr::rc {

struct ConnectionName {
    uint64_t peer;       // incarnation of the peer's interface
    uint64_t connection; // the peer's name for the connection
};

struct AcceptedConnection {
    verbs::QueuePair qp;
    ConnectionName name;
    uint32_t psn;
    // of the peer: where to send questions
    DeviceAddress device;
    uint32_t handshake_qpn;
    uint32_t handshake_qkey;
    unsigned unanswered = 0; // questions in a row
};

class AcceptedConnections {
  public:
    using Clock = std::chrono::steady_clock;

    // limit: of all connections. interval: between questions to a peer.
    AcceptedConnections(size_t limit, size_t limit_of_peer, Clock::duration interval)
        : limit_(limit), limit_of_peer_(limit_of_peer), interval_(interval)
    {
    }

    // NULL: there is none of that name.
    AcceptedConnection* find(const ConnectionName& name);

    // Returns the variable of the limit that forbids another connection of the peer while so many
    // others are ending, or NULL if it is allowed.
    const char* full(uint64_t peer, size_t ending) const;

    const AcceptedConnection* add(AcceptedConnection accepted);

    // Return the queue pairs of the removed connections.
    std::vector<verbs::QueuePair> remove(const ConnectionName& name);
    std::vector<verbs::QueuePair> remove_all(uint64_t peer);
    std::vector<verbs::QueuePair> remove_all();

    // Takes the next connection whose peer is due to be asked, and schedules its next question;
    // NULL: none is due.
    AcceptedConnection* next_question();
    Clock::time_point next() const
    {
        return questions_.empty() ? Clock::time_point::max() : questions_.front().due;
    }

  private:
    struct Question {
        Clock::time_point due;
        ConnectionName name; // may be removed already
    };

    const size_t limit_;
    const size_t limit_of_peer_;
    const Clock::duration interval_;
    size_t count_ = 0;
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, AcceptedConnection>> by_peer_;
    std::list<Question> questions_; // in the order of due: all have the same interval
};

} // namespace gdr::rc
