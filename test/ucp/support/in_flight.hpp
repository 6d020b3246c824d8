// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Non-blocking UCP operations in flight: starts them, collects their completions and checks what
// UCP says about each (status, length, tag).
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <ucp/api/ucp.h>

#include "messages.hpp"
#include "worker.hpp"

namespace ucptest {

class InFlight {
  public:
    // Whether UCP is told the types of memory, and need not find them out.
    enum class Types { kFound, kTold };

    explicit InFlight(Worker& worker, Types types = Types::kFound) : worker_(worker), types_(types)
    {
    }
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;

    void tag_send(ucp_ep_h ep, const View& view, ucp_tag_t tag, bool synchronous = false);
    void tag_receive(const View& view, ucp_tag_t tag, size_t length);
    // The header must stay until the operation is complete.
    void am_send(ucp_ep_h ep, unsigned id, const void* header, size_t header_length,
                 const View& view, uint32_t flags);
    // Whether the descriptor is still in use when the call returns.
    bool am_receive(void* descriptor, const View& view, size_t length);
    void stream_send(ucp_ep_h ep, const View& view);
    void stream_receive(ucp_ep_h ep, const View& view, size_t length);
    void put(ucp_ep_h ep, const View& view, uint64_t target, ucp_rkey_h rkey);
    void get(ucp_ep_h ep, const View& view, uint64_t source, ucp_rkey_h rkey);
    // size: 4 or 8 bytes. reply: where the fetched value goes (nullptr: nothing is fetched); for
    // compare-and-swap it holds the swap value beforehand.
    void atomic(ucp_ep_h ep, ucp_atomic_op_t opcode, const void* operand, void* reply,
                uint64_t target, ucp_rkey_h rkey, size_t size = sizeof(uint64_t));
    void flush(ucp_ep_h ep);
    void close(ucp_ep_h ep, bool force);

    size_t outstanding() const { return outstanding_; }
    // What went wrong first; UCS_OK if nothing did.
    ucs_status_t status() const { return status_; }
    // Waits for all; throws a Failure if one failed or the deadline passed.
    void wait(const std::string& what);
    // Waits for all to complete, with whatever status; whether they did before the deadline.
    bool wait_for(std::chrono::milliseconds limit);
    // Cancels what is outstanding; it then completes.
    void cancel();

  private:
    struct Operation {
        InFlight* owner;
        size_t length;   // expected of a receive
        ucp_tag_t tag;   // expected of a tag receive
        size_t received; // by a receive that completes immediately
        void* request;   // while it is outstanding
        bool complete;
    };

    ucp_request_param_t parameters(ucp_datatype_t datatype, Operation& operation);
    ucp_request_param_t parameters(const View& view, Operation& operation);
    Operation& expect(size_t length = 0, ucp_tag_t tag = 0);
    void started(ucs_status_ptr_t request, const char* call);
    void finish(Operation& operation, ucs_status_t status);
    void check_length(size_t found, size_t expected);
    void check_tag(const ucp_tag_recv_info_t& info, const Operation& operation);

    static void sent(void* request, ucs_status_t status, void* operation);
    static void tag_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                             void* operation);
    static void data_received(void* request, ucs_status_t status, size_t length, void* operation);

    Worker& worker_;
    const Types types_;
    std::deque<Operation> operations_; // stays at its address until all are complete
    size_t outstanding_ = 0;
    ucs_status_t status_ = UCS_OK;
    std::string error_;
};

// Progresses two workers of this process, by polling, until operations of one of them are complete,
// with whatever status; whether they were before the deadline.
bool complete_between(InFlight& operations, Worker& one, Worker& other,
                      std::chrono::milliseconds limit);

} // namespace ucptest
