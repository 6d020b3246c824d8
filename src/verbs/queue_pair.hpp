// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Queue pairs: creation and state transitions.
#pragma once

#include "verbs/handles.hpp"

#include <cstdint>

namespace gdr::verbs {

// Address of a queue pair on another HCA.
struct Destination {
    uint16_t lid; // InfiniBand
    ibv_gid gid;  // RoCE, and InfiniBand across subnets
    bool global;  // send a GRH
};

// How the packets of a queue pair leave this HCA. Constant for an interface.
struct Path {
    uint8_t port;
    uint8_t gid_index;
    uint8_t service_level;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint16_t pkey_index;
};

struct RcAttributes {
    ibv_mtu mtu;
    uint32_t remote_qpn;
    uint32_t remote_psn;
    uint32_t local_psn;
    uint8_t max_rd_atomic;      // reads and atomics this side may have outstanding
    uint8_t max_dest_rd_atomic; // reads and atomics the peer may have outstanding here
    uint8_t timeout;            // 4.096 us * 2^timeout; 0: for ever
    uint8_t retry_count;
    uint8_t rnr_retry; // 7: for ever
    uint8_t min_rnr_timer;
};

// How work requests are posted to a queue pair (posting.hpp).
enum class Posting { by_lists, by_functions };

// Creates a queue pair in state INIT. remote_access: Device::remote_access(). capabilities: in:
// requested, out: granted. Throws Error.
QueuePair create_rc(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq, const Path& path, int remote_access,
                    ibv_qp_cap* capabilities, Posting posting = Posting::by_lists);

// Moves the queue pair from INIT to RTS. Returns 0 or an errno; failed names the step.
int connect_rc(ibv_qp* qp, const Path& path, const Destination& destination,
               const RcAttributes& attributes, const char** failed);

// Creates a queue pair in state RTS. Throws Error.
QueuePair create_ud(ibv_pd* pd, ibv_cq* cq, const Path& path, uint32_t qkey,
                    ibv_qp_cap* capabilities);

// Resets the queue pair from any state and moves it to RTS again. Posted requests, and completions
// that were not polled yet, are lost. Throws Error.
void restart_ud(ibv_qp* qp, const Path& path, uint32_t qkey);

// Everything outstanding completes with a flush error.
void to_error(ibv_qp* qp);

// Everything outstanding is dropped: the HCA does not touch its buffers any more.
void to_reset(ibv_qp* qp);

ibv_ah_attr address_vector(const Path& path, const Destination& destination);

} // namespace gdr::verbs
