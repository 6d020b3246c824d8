// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The endpoints of an interface: by the ids of their work requests, and by their queue pairs.
#pragma once

#include "rc/work_requests.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace gdr::rc {

struct Endpoint;

// Worker thread only.
class Endpoints {
  public:
    // The place of an endpoint, and of later ones after it.
    class Slot {
      public:
        // Whether the work request is of the endpoint that is here, and not of an earlier one.
        bool posted(uint64_t wr_id) const { return same_endpoint(name_, wr_id); }
        Endpoint* endpoint() const { return endpoint_; }

      private:
        friend class Endpoints;
        Endpoint* endpoint_ = nullptr;
        uint64_t name_ = 0; // its wr_ids without the number; while free: the next, no kSendBit
    };

    const Slot& slot(uint64_t wr_id) const { return slots_[slot_of(wr_id)]; }

    uint64_t add(Endpoint* ep); // returns its id. Throws std::runtime_error
    void remove(uint64_t id);

    Endpoint* find(uint64_t id) const // NULL: destroyed
    {
        const Slot& at = slot(wr_id_of(id)); // only add() makes ids
        return at.name_ == wr_id_of(id) ? at.endpoint_ : nullptr;
    }

    // call(Endpoint&) may create and destroy endpoints.
    void for_each(auto call) const
    {
        for (size_t i = 0; i < slots_.size(); ++i) {
            if (Endpoint* ep = slots_[i].endpoint_; ep != nullptr) {
                call(*ep);
            }
        }
    }

    // ---- those with a queue pair, by its number
    void add_queue_pair(uint32_t qpn, Endpoint* ep) { by_qpn_[qpn] = ep; }
    void remove_queue_pair(uint32_t qpn) { by_qpn_.erase(qpn); }
    size_t queue_pairs() const { return by_qpn_.size(); }

    Endpoint* of_queue_pair(uint32_t qpn) const // NULL: none
    {
        auto found = by_qpn_.find(qpn);
        return found != by_qpn_.end() ? found->second : nullptr;
    }

  private:
    std::vector<Slot> slots_ = std::vector<Slot>(1); // the first belongs to no endpoint
    std::vector<uint32_t> free_;
    std::unordered_map<uint32_t, Endpoint*> by_qpn_;
};

} // namespace gdr::rc
