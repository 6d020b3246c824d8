// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// An HCA whose packets are the target's. Objects and their states are softhca's; what is posted
// ends here, and completions are what the target says. So are the time, UCX's asynchronous thread
// and those that the module starts: they have their turns when the target says. An input does the
// same each time.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace fuzz {

struct Sent {
    ibv_qp_type qp_type; // its queue pair may have gone since
    uint32_t qp_num;
    uint32_t remote_qpn; // of a datagram
    std::vector<char> data;
};

// What was sent since the last call. Each has completed, if it was to.
std::vector<Sent> take_sent();

// Queues a completion.
void complete(ibv_cq* cq, const ibv_wc& completion);

// Fills the receive that the SRQ has next with as many bytes as it takes and queues its completion,
// which is given but for its wr_id. False: there was no receive.
bool receive(ibv_srq* srq, ibv_cq* cq, const void* data, size_t length, ibv_wc completion);

// The same of a UD queue pair: a datagram of so many bytes arrives from the queue pair source.
inline constexpr size_t kLongestDatagram = 216; // that the handshake's receives have room for
void receive_datagram(uint32_t qpn, const void* data, size_t length, uint32_t source);

// Runs the threads that were started to their ends, and calls whoever waits for descriptors that
// are readable, for completions and for a time that has come, until all is handled.
void asynchronous_turns();

// The time goes on by so much, at once. It stands still otherwise.
void pass(std::chrono::milliseconds time);

// Somebody waits for a time to come.
bool awaits_time();

// The emulated HCA, preloaded: for LLVMFuzzerInitialize().
void start(char** argv);

} // namespace fuzz
