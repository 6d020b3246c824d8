// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations that an endpoint ends when its work requests complete. Work requests are numbered.
// Only those with an operation have an entry, in a ring as long as the send queue.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace gdr::rc {

struct Endpoint;

struct SendOp {
    // The most frequent ones have no handler.
    enum class Kind : uint32_t {
        buffer, // only returns the buffer
        get,    // unpacks the data from the buffer
        other,
    };
    // status: UCS_OK, or why the work request did not complete. op is valid until the handler
    // posts.
    using Handler = void (*)(Endpoint& ep, const SendOp& op, ucs_status_t status);

    Kind kind = Kind::other;
    uint32_t length = 0; // of a get; or a second buffer's number
    union {
        Handler handler = nullptr;
        uct_unpack_callback_t unpack; // of a get
    };
    uct_completion_t* completion = nullptr; // may be NULL
    std::byte* buffer = nullptr;            // from the interface's pool, or NULL
    void* result = nullptr;                 // destination of a get or of an atomic's result
    uint64_t wr_id = 0;                     // of its work request
};

class SendOps {
  public:
    SendOps() = default; // holds none
    explicit SendOps(unsigned capacity)
        : places_(std::make_unique<Place[]>(capacity + 1)), last_(&places_[capacity]),
          head_(&places_[0]), tail_(head_)
    {
        for (unsigned i = 0; i < capacity; ++i) {
            places_[i].after = &places_[i + 1];
        }
        last_->after = head_;
    }

    bool empty() const { return head_ == tail_; }
    const SendOp& front() const { return head_->op; }
    const SendOp& pop() { return std::exchange(head_, head_->after)->op; }
    SendOp& next() { return tail_->op; } // to be filled, then pushed
    void push() { tail_ = tail_->after; }

    // Drops the operation that was pushed last.
    const SendOp& take_back()
    {
        tail_ = tail_ == &places_[0] ? last_ : tail_ - 1;
        return tail_->op;
    }

    // Whether an operation still concerns the user: it has a completion, or a place for data.
    bool any_of_the_user() const
    {
        for (const Place* place = head_; place != tail_; place = place->after) {
            const SendOp& op = place->op;
            if (op.kind == SendOp::Kind::get ||
                (op.kind == SendOp::Kind::other &&
                 (op.completion != nullptr || op.result != nullptr))) {
                return true;
            }
        }
        return false;
    }

  private:
    // Linked, because an index would cost a multiplication.
    struct Place {
        SendOp op;
        Place* after = nullptr;
    };
    std::unique_ptr<Place[]> places_; // one more, so that a full ring does not look empty
    Place* last_ = nullptr;
    Place* head_ = nullptr;
    Place* tail_ = nullptr;
};

} // namespace gdr::rc
