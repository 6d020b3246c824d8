// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is to go to a peer, in its order.
#pragma once

#include "sync/rings/memory.hpp"

#include <vector>

namespace gdr::sync {

class Outbox {
  public:
    Outbox() = default;
    Outbox(const Outbox&) = delete;
    Outbox& operator=(const Outbox&) = delete;

    // ---- the engine's thread

    bool empty() const { return next_ == items_.size(); }
    const Transfer& next() const { return items_[next_]; }
    void pop()
    {
        if (++next_ == items_.size()) {
            clear();
        }
    }
    void clear()
    {
        items_.clear();
        next_ = 0;
    }

    // For so many at a time nothing is allocated later.
    void reserve(size_t items) { items_.reserve(items); }

    // flagged: retired() tells it.
    void add(Transfer transfer, bool flagged = false)
    {
        transfer.ticket = reinterpret_cast<uint64_t>(this) | (flagged ? 1 : 0);
        items_.push_back(transfer);
        ++unretired_;
    }
    void add_word(const RemoteMemory& memory, uint64_t offset, uint64_t value)
    {
        Transfer word{};
        word.kind = Transfer::Kind::put_value;
        word.length = sizeof(value);
        word.remote = &memory;
        word.remote_offset = offset;
        word.value = value;
        add(word);
    }

    // Of the outbox of a ticket: one that was added is complete.
    static void tell(uint64_t ticket)
    {
        auto& outbox = *reinterpret_cast<Outbox*>(ticket & ~uint64_t{1});
        --outbox.unretired_;
        outbox.retired((ticket & 1) != 0);
    }

    // How many that were added are not complete.
    uint64_t unretired() const { return unretired_; }

    bool listed = false; // by the courier

  protected:
    ~Outbox() = default;

  private:
    virtual void retired(bool flagged) = 0;

    std::vector<Transfer> items_;
    size_t next_ = 0;
    uint64_t unretired_ = 0;
};

} // namespace gdr::sync
