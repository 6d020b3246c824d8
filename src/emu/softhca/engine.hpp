// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Execution of work requests. The process that runs a send queue plays both HCAs: it checks keys,
// bounds and rights as the responder's would, moves the payload and publishes both completions.
// Usually that is the poster, within ibv_post_send; a queue that has to wait for its receiver is
// run by the receiver when it posts receives, and by the agents of both. Requests that come to
// device memory which only the CUDA driver can copy are left to the requester's copier, which runs
// the queue without holding its lock while it copies.
//
// Order of locks: send queue, then receive queue, then completion queue; one of each at most.
#pragma once

#include "emu/softhca/objects.hpp"
#include "emu/softhca/verbs_abi.hpp"

namespace softhca {

// Posts a list of work requests to a QP of this process; as ibv_post_send. If `all_or_none`, what
// is wrong with one of them keeps those before it from being posted, too.
int post_send_list(Process& self, Qp& qp, ibv_send_wr* wr, ibv_send_wr** bad,
                   bool all_or_none = false);

// Executes what waits in a send queue of any process, as far as it can be.
void run_send_queue(Process& self, Arena& arena, std::uint32_t qp_index);

// For the copier: the same for an own QP, whatever memory its requests name.
void run_copies(Process& self, std::uint32_t qp_index);

// For the agent: the same for an own QP; false when its queue needs no further attention.
bool run_watched(Process& self, std::uint32_t qp_index);

// Runs the send queues of the QPs connected to these own QPs, where they wait for receive WQEs.
void serve_waiting_peers(Process& self, std::uint32_t recv_queue, const std::uint32_t* qps,
                         std::size_t count);

// Runs the send queue of the connected QP if it has anything to send: the own QP became ready.
void wake_peer(Process& self, std::uint32_t qp_index);

// Completes what waited for deferred writes at this CQ; `now`: has them all applied at once.
void retire_deferred(Process& self, Cq& cq, bool now);

// Has the deferred writes of an own QP applied and a copy ended before it goes; the caller holds
// its lock, which is released meanwhile.
void settle_send_queue(Process& self, std::uint32_t qp_index);

// Brings an own QP into the error state: everything queued is flushed.
void fail_qp(Process& self, std::uint32_t qp_index);

} // namespace softhca
