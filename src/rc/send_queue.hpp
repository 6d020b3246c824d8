// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an endpoint has to do when its work requests complete. Work requests are numbered; only
// those that leave something to do have an entry, in a ring as long as the send queue.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gdr::rc {

struct Endpoint;

// Position in the endpoint's sequence of work requests; compared modulo 2^16.
using SequenceNumber = uint16_t;

inline bool not_after(SequenceNumber a, SequenceNumber b)
{
    return static_cast<int16_t>(static_cast<SequenceNumber>(a - b)) <= 0;
}

struct SendOp {
    // status: UCS_OK, or why the work request did not complete. op is good until the handler posts.
    using Handler = void (*)(Endpoint& ep, const SendOp& op, ucs_status_t status);

    Handler handler = nullptr;              // nullptr: the buffer goes back, and there is no more
    uct_completion_t* completion = nullptr; // may be NULL
    std::byte* buffer = nullptr;            // from the interface's pool, or NULL
    void* result = nullptr;                 // destination of a get or of an atomic's result
    uct_unpack_callback_t unpack = nullptr; // of a buffered get
    uint32_t length = 0;                    // of a get; or a second buffer's number
    SequenceNumber number = 0;
};

class SendOps {
  public:
    explicit SendOps(unsigned capacity) // a power of two
        : ops_(std::make_unique<SendOp[]>(capacity)), mask_(capacity - 1)
    {
    }

    bool empty() const { return head_ == tail_; }
    const SendOp& front() const { return ops_[head_ & mask_]; }
    const SendOp& pop() { return ops_[head_++ & mask_]; }
    SendOp& next() { return ops_[tail_ & mask_]; } // to be filled, then pushed
    void push() { ++tail_; }

    // Whether one of them has something of the user's: a completion that is waited for, or a place
    // for data.
    bool any_of_the_user() const
    {
        for (unsigned i = head_; i != tail_; ++i) {
            const SendOp& op = ops_[i & mask_];
            if (op.handler != nullptr &&
                (op.completion != nullptr || op.result != nullptr || op.unpack != nullptr)) {
                return true;
            }
        }
        return false;
    }

  private:
    std::unique_ptr<SendOp[]> ops_;
    const unsigned mask_;
    unsigned head_ = 0;
    unsigned tail_ = 0;
};

} // namespace gdr::rc
