// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making, posting and releasing receive buffers.
#include "rc/receive_queue.hpp"

#include "abi/host.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace gdr::rc {
namespace {

size_t round_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

} // namespace

ReceiveQueue::ReceiveQueue(ibv_pd* pd, CompletionRoom& completions, unsigned length, unsigned most,
                           size_t segment_size, size_t headroom, size_t alignment,
                           size_t align_offset)
    : pd_(pd), completions_(completions), segment_size_(static_cast<uint32_t>(segment_size)),
      headroom_(headroom),
      // data + align_offset is a multiple of alignment, with room for a pointer and the headroom
      // before it
      offset_(round_up(sizeof(void*) + headroom + align_offset, alignment) - align_offset),
      stride_(round_up(offset_ + segment_size, alignment)), most_(most)
{
    unsigned count = length;
    auto memory = RegisteredMemory::for_as_many(pd, stride_, kShortest, &count, "receive buffers",
                                                "UCX_GDR_RC_RX_QUEUE_LEN");
    if (count < length) {
        most_ = count;
    }
    if (!completions_.take(count)) {
        throw verbs::Error("room for " + std::to_string(count) + " completions", ENOMEM);
    }

    ibv_srq_init_attr init{};
    init.attr.max_wr = most_;
    init.attr.max_sge = 1;
    srq_.reset(ibv_create_srq(pd, &init));
    if (!srq_) {
        throw verbs::Error("ibv_create_srq(" + std::to_string(most_) + ")", errno);
    }
    add(std::move(memory), count);
}

void ReceiveQueue::add(RegisteredMemory memory, unsigned count)
{
    // clang 14, with which the fuzzers are built, makes no aggregate in place.
    Part& part = parts_.emplace_back(Part{std::move(memory), std::make_unique<Receive[]>(count)});
    for (unsigned i = count; i-- > 0;) {
        Receive& receive = part.receives[i];
        receive.recv_desc.cb = release;
        receive.queue = this;
        receive.sge = {reinterpret_cast<uintptr_t>(part.memory.data() + i * stride_ + offset_),
                       segment_size_, part.memory.lkey()};
        receive.wr = {receive.id(), nullptr, &receive.sge, 1};
        static_cast<uct_recv_desc_t**>(descriptor(receive, headroom_))[-1] = &receive.recv_desc;
        (void)add_free(&receive);
    }
    length_ += count;
    post_free();
}

void ReceiveQueue::grow(size_t wanted)
{
    while (length_ < wanted && length_ < most_) {
        const unsigned count = std::min(length_, most_ - length_);
        if (!completions_.take(count)) {
            most_ = length_;
            return;
        }
        try {
            add(RegisteredMemory(pd_, count * stride_), count);
        } catch (const std::exception& error) {
            completions_.give_back(count);
            gdr_log(warn,
                    "only %u of %u receive buffers can be registered: raise the limit of locked "
                    "memory (ulimit -l) or lower UCX_GDR_RC_RX_QUEUE_LEN: %s",
                    length_, most_, error.what());
            most_ = length_;
        }
    }
}

void ReceiveQueue::hold()
{
    if (++held_ >= length_ / 2) {
        grow(size_t{length_} * 2);
        keep_flag_ = held_ < length_ / 2 ? UCT_CB_PARAM_FLAG_DESC : 0;
    }
}

void ReceiveQueue::release(uct_recv_desc_t* self, void*)
{
    auto* receive = reinterpret_cast<Receive*>(self);
    ReceiveQueue& queue = *receive->queue;
    if (--queue.held_ < queue.length_ / 4) {
        queue.keep_flag_ = UCT_CB_PARAM_FLAG_DESC;
    }
    queue.put(receive);
}

void ReceiveQueue::post_free()
{
    ibv_recv_wr* refused = nullptr;
    if (int error = ibv_post_srq_recv(srq_.get(), free_, &refused); error != 0) {
        gdr_log(error, "ibv_post_srq_recv failed: %s", verbs::errno_text(error).c_str());
        while (free_ != nullptr && free_ != refused) { // what was taken before the refusal
            free_ = free_->next;
            ++more_free_;
        }
        return;
    }
    free_ = nullptr;
    more_free_ = kBatch - 1;
}

} // namespace gdr::rc
