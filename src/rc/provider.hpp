// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an interface uses of what HCAs' libraries offer beyond the verbs that all have: a thread
// domain, a completion queue for one thread, the ibv_wr_* functions. Decided when it is opened.
//
// All three rest on who uses an object. The interface's thread (UCX lets several threads use an
// interface, one at a time) alone posts, polls, resizes and asks for notification, and it alone
// destroys or resets queue pairs of the completion queue: those that end are handed over to it
// (EndingQueuePairs). UCX's asynchronous thread makes queue pairs for peers and moves any through
// their states, which touches neither completion queue nor SRQ. It moves an endpoint's queue pair
// before the interface's thread has been told that it is connected, and after that thread has given
// it away. A peer's, which it brings to the error state while the interface's thread may post a
// window grant, is outside the thread domain.
#pragma once

#include "rc/settings.hpp"
#include "verbs/completion_queue.hpp"
#include "verbs/posting.hpp"
#include "verbs/queue_pair.hpp"
#include "verbs/thread_domain.hpp"

#include <functional>
#include <optional>
#include <string>

namespace gdr::rc {

class Provider {
  public:
    // Throws UnmetSetting where a setting demands what is not offered, as all calls below.
    Provider(ibv_pd* pd, const Settings& settings, std::string device);

    verbs::CompletionQueue create_cq(unsigned entries, ibv_comp_channel* channel);
    verbs::PollCq poll_cq() const { return poll_cq_; } // of the last one

    // For the SRQ, and for queue pairs that the interface's thread alone uses.
    ibv_pd* pd() const { return thread_domain_ ? thread_domain_->pd() : pd_; }

    // probe makes a queue pair for a way of posting, or throws.
    void choose_posting(const std::function<void(verbs::Posting)>& probe);
    verbs::Posting posting() const { return posting_; }
    verbs::PostSend post_send() const;

  private:
    bool take(abi::Ternary wanted, const char* what, const std::function<void()>& attempt) const;

    ibv_pd* const pd_;
    const abi::Ternary single_threaded_cq_;
    const abi::Ternary wr_functions_;
    const std::string device_;
    std::optional<verbs::ThreadDomain> thread_domain_;
    verbs::PollCq poll_cq_ = nullptr;
    verbs::Posting posting_ = verbs::Posting::by_lists;
};

} // namespace gdr::rc
