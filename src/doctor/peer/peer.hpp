// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One side of a pair: a worker of UCP that is connected with the other side's, a buffer, and the
// transfers between the two buffers.
#pragma once

#include "doctor/peer/memory.hpp"
#include "doctor/peer/ucp.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gdr::peer {

// Throws std::runtime_error. A transfer that takes longer than its time does so, too.
class Peer {
  public:
    Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer();

    std::string address() const;
    // For who waits: other processes may need the processor for what it waits for.
    void progress();
    // Whether there was none for a while.
    bool is_idle() const;

    void connect(const std::string& address);
    // In the place of the one before.
    Memory& take_memory(const std::string& kind, size_t length, const std::string& gpu);
    Memory& memory();
    std::string packed_key() const;
    // The buffer of the other side.
    void take_remote(uint64_t address, const std::string& packed_key);

    void put(size_t length);
    void get(size_t length);
    void send(size_t length);
    void receive(size_t length);
    // Seconds for each message in one direction.
    double ping(size_t length, size_t count);
    void pong(size_t length, size_t count);
    // Puts of the whole buffer for about that time, several under way, or a single one that takes
    // longer: bytes in a second.
    double stream(double seconds);

  private:
    void finish(ucs_status_ptr_t request, const char* call);
    void flush();
    void forget_remote();
    void forget_memory();

    const Ucp ucp_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
    std::unique_ptr<Memory> memory_;
    ucp_mem_h handle_ = nullptr;
    uint64_t remote_ = 0;
    ucp_rkey_h remote_key_ = nullptr;
    unsigned idle_ = 0; // calls of progress() without any, one after the other
};

} // namespace gdr::peer
