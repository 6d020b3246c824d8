// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds, adds and removes accepted connections.
#include "rc/connect/accepted_connections.hpp"

#include <utility>

namespace gdr::rc {

AcceptedConnection* AcceptedConnections::find(const ConnectionName& name)
{
    auto peer = by_peer_.find(name.peer);
    if (peer == by_peer_.end()) {
        return nullptr;
    }
    auto found = peer->second.find(name.connection);
    return found != peer->second.end() ? &found->second : nullptr;
}

const char* AcceptedConnections::full(uint64_t peer, size_t ending) const
{
    if (count_ + ending >= limit_) {
        return "UCX_GDR_RC_MAX_ACCEPTED";
    }
    auto found = by_peer_.find(peer);
    bool peer_is_full = found != by_peer_.end() && found->second.size() >= limit_of_peer_;
    return peer_is_full ? "UCX_GDR_RC_MAX_ACCEPTED_OF_PEER" : nullptr;
}

const AcceptedConnection* AcceptedConnections::add(AcceptedConnection accepted)
{
    ConnectionName name = accepted.name;
    questions_.push_back({Clock::now() + interval_, name});
    ++count_;
    return &by_peer_[name.peer].emplace(name.connection, std::move(accepted)).first->second;
}

std::vector<verbs::QueuePair> AcceptedConnections::remove(const ConnectionName& name)
{
    std::vector<verbs::QueuePair> removed;
    if (AcceptedConnection* accepted = find(name); accepted != nullptr) {
        removed.push_back(std::move(accepted->qp));
        --count_;
        auto peer = by_peer_.find(name.peer);
        peer->second.erase(name.connection);
        if (peer->second.empty()) {
            by_peer_.erase(peer);
        }
    }
    return removed;
}

std::vector<verbs::QueuePair> AcceptedConnections::remove_all(uint64_t peer)
{
    std::vector<verbs::QueuePair> removed;
    if (auto connections = by_peer_.extract(peer)) {
        for (auto& [connection, accepted] : connections.mapped()) {
            removed.push_back(std::move(accepted.qp));
        }
        count_ -= removed.size();
    }
    return removed;
}

std::vector<verbs::QueuePair> AcceptedConnections::remove_all()
{
    std::vector<verbs::QueuePair> removed;
    for (auto& [peer, connections] : std::exchange(by_peer_, {})) {
        for (auto& [connection, accepted] : connections) {
            removed.push_back(std::move(accepted.qp));
        }
    }
    count_ = 0;
    return removed;
}

AcceptedConnection* AcceptedConnections::next_question()
{
    for (auto now = Clock::now(); next() <= now;) {
        AcceptedConnection* accepted = find(questions_.front().name);
        if (accepted != nullptr) {
            questions_.front().due = now + interval_;
            questions_.splice(questions_.end(), questions_, questions_.begin());
            return accepted;
        }
        questions_.pop_front();
    }
    return nullptr;
}

} // namespace gdr::rc
