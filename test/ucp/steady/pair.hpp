// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two connected workers in one process with a device buffer on either side, and operations
// between them that allocate nothing themselves.
#pragma once

#include <cstddef>
#include <vector>

#include "../support/messages.hpp"
#include "../support/remote_memory.hpp"
#include "../support/worker.hpp"

namespace ucptest {

class Pair {
  public:
    // Buffers of kind, of window messages of size bytes each.
    Pair(MemoryKind kind, size_t size, size_t window);

    Messages& source() { return source_; }
    Messages& target() { return target_; }

    // Each starts one operation on message index.
    void put(size_t index);     // source to target
    void get(size_t index);     // target to source
    void send(size_t index);    // source to target, matched by tag
    void send_am(size_t index); // source to target, an active message

    // Progresses both sides until at most so many operations are outstanding; throws a Failure if
    // one failed or the deadline passed.
    void drain(size_t outstanding);
    void flush();
    void close();

    // Maps some host memory in both contexts: registration caches take in, there and then, what was
    // unmapped before, and do not have that left to do later.
    void settle_caches();

  private:
    static ucp_ep_h connect(Worker& from, Worker& to);
    ucs_status_t arrived(size_t index, void* data, const ucp_am_recv_param_t& message);
    uint64_t remote_address(size_t index);
    ucp_request_param_t parameters();
    void started(ucs_status_ptr_t request, const char* call);
    void finish(void* request, ucs_status_t status);

    Worker near_;
    Worker far_;
    ucp_ep_h ep_;
    ucp_ep_h back_;
    Messages source_;
    Messages target_;
    std::vector<size_t> indices_; // what active messages have for a header
    ExposedMemory exposed_;
    RemoteMemory remote_;
    size_t outstanding_ = 0;
    ucs_status_t status_ = UCS_OK;
};

} // namespace ucptest
