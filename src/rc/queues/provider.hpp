// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Provider features beyond the common verbs that an interface uses: a thread domain, a completion
// queue for one thread, the ibv_wr_* functions, the queues of a ConnectX themselves. The choice is
// made when the interface is opened.
//
// All four depend on which thread uses an object. Only the interface's thread posts, polls,
// resizes and requests notification (UCX lets several threads use an interface, one at a time), and
// only it destroys or resets queue pairs of the completion queue: ending ones are handed over to it
// (EndingQueuePairs). UCX's async thread makes queue pairs for peers and changes the state of any,
// which touches neither completion queue nor SRQ. It changes an endpoint's queue pair before the
// interface's thread learns that it is connected, and after that thread has given it up. A peer's
// queue pair, which it may move to the error state while the interface's thread posts a window
// grant, is outside the thread domain.
#pragma once

#include "mlx5/queues.hpp"
#include "rc/queues/settings.hpp"
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
    // This and all calls below throw UnmetSetting if a setting demands a feature that is not
    // offered.
    Provider(ibv_pd* pd, const Settings& settings, bool shares_receives, std::string device);

    // Whether entries of queues are written and read without the provider's library.
    bool takes_queues() const { return takes_queues_; }

    verbs::CompletionQueue create_cq(unsigned entries, ibv_comp_channel* channel);
    verbs::PollCq poll_cq() const { return poll_cq_; } // for the queue created last

    // For the SRQ, and for queue pairs that only the interface's thread uses.
    ibv_pd* pd() const { return thread_domain_ ? thread_domain_->pd() : pd_; }

    // probe creates a queue pair for a way of posting, or throws.
    void choose_posting(const std::function<void(verbs::Posting)>& probe);
    verbs::Posting posting() const { return posting_; }
    verbs::PostSend post_send() const;
    verbs::PostSend post_by_lists() const; // to queue pairs of peers, whatever posting() is
    verbs::PostReceives post_receives() const;

    // To be called for the SRQ, for each queue pair before it sends, and when its last completions
    // are polled or shall not be told. is_in_pd: it was created in pd().
    void adopt(ibv_srq* srq);
    void adopt(ibv_qp* qp, bool is_in_pd);
    void forget(const ibv_qp& qp);

    // Like ibv_req_notify_cq; returns an errno. events: of the queue, since the last call.
    int request_notification(ibv_cq* cq, unsigned events);

  private:
    bool take(abi::Ternary wanted, const char* variable, const char* what,
              const std::function<void()>& attempt) const;

    ibv_pd* const pd_;
    const std::string device_;
    const abi::Ternary single_threaded_cq_;
    const abi::Ternary wr_functions_;
    const bool takes_queues_;
    std::optional<mlx5::Queues> queues_;
    std::optional<verbs::ThreadDomain> thread_domain_;
    verbs::PollCq poll_cq_ = nullptr;
    verbs::Posting posting_ = verbs::Posting::by_lists;
};

} // namespace gdr::rc
