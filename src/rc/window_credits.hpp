// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Window credit of the peers whose connections an interface has accepted. A peer requests a grant
// for each half of its window; the interface's thread sends it.
#pragma once

#include "rc/connect/handshake.hpp"
#include "rc/send_credits.hpp"
#include "verbs/posting.hpp"

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace gdr::rc {

// The grants of an accepted queue pair.
class WindowCredit {
  public:
    WindowCredit(ibv_qp* qp, const ConnectionName& name) : qp_(qp), name_(name) {}

    ibv_qp* qp() const { return qp_; }
    const ConnectionName& name() const { return name_; }
    bool failed() const { return failed_; } // the connection ends

  private:
    friend class WindowCredits;
    uint64_t wr_id() const;

    ibv_qp* qp_;
    ConnectionName name_;
    unsigned due_ = 0;
    int in_flight_ = 0;
    bool failed_ = false;
};

// Worker thread only.
class WindowCredits {
  public:
    WindowCredits(SendCredits& credits, verbs::PostSend post_send, Handshake& handshake)
        : credits_(credits), post_send_(post_send), handshake_(handshake)
    {
    }

    void add(ibv_qp* qp, const ConnectionName& name);
    void forget(uint32_t qpn); // the queue pair is destroyed

    size_t size() const { return accepted_.size(); }
    auto begin() const { return accepted_.begin(); }
    auto end() const { return accepted_.end(); }
    WindowCredit* find(uint32_t qpn); // NULL: not accepted

    // The peer has requested a grant.
    void request(WindowCredit& credit);

    // The completion of a grant, by its id.
    void sent(uint64_t wr_id, ibv_wc_status status);

    // The connection is ended. False: it was before.
    bool fail(WindowCredit& credit);

  private:
    void grant(WindowCredit& credit);
    void grant_waiting();

    SendCredits& credits_;
    const verbs::PostSend post_send_;
    Handshake& handshake_;
    std::unordered_map<uint32_t, WindowCredit> accepted_; // by queue pair number
    std::vector<WindowCredit*> waiting_;                  // for room in the completion queue
};

} // namespace gdr::rc
