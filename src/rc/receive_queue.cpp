// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making, posting and releasing receive buffers.
#include "rc/receive_queue.hpp"

#include "abi/host.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <string>

namespace gdr::rc {
namespace {

size_t round_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

} // namespace

ReceiveQueue::ReceiveQueue(ibv_pd* pd, unsigned length, size_t segment_size, size_t headroom,
                           size_t alignment, size_t align_offset)
    : length_(length)
{
    // data + align_offset is a multiple of alignment, with room for a pointer and the headroom
    // before it
    size_t offset = round_up(sizeof(void*) + headroom + align_offset, alignment) - align_offset;
    size_t stride = round_up(offset + segment_size, alignment);
    memory_ = RegisteredMemory::for_as_many(pd, stride, kShortest, &length_, "receive buffers",
                                            "UCX_GDR_RC_RX_QUEUE_LEN");

    ibv_srq_init_attr init{};
    init.attr.max_wr = length_;
    init.attr.max_sge = 1;
    srq_.reset(ibv_create_srq(pd, &init));
    if (!srq_) {
        throw verbs::Error("ibv_create_srq(" + std::to_string(length_) + ")", errno);
    }

    receives_ = std::make_unique<Receive[]>(length_);
    for (unsigned i = length_; i-- > 0;) {
        Receive& receive = receives_[i];
        receive.recv_desc.cb = release;
        receive.queue = this;
        receive.data = memory_.data() + i * stride + offset;
        receive.sge = {reinterpret_cast<uintptr_t>(receive.data),
                       static_cast<uint32_t>(segment_size), memory_.lkey()};
        receive.wr = {reinterpret_cast<uintptr_t>(&receive), nullptr, &receive.sge, 1};
        static_cast<uct_recv_desc_t**>(descriptor(receive, headroom))[-1] = &receive.recv_desc;
        put(&receive);
    }
    post_free();
}

void ReceiveQueue::hold()
{
    if (++held_ >= length_ / 2) {
        keep_flag_ = 0;
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
    queue.refill();
}

void ReceiveQueue::post_free()
{
    ibv_recv_wr* refused = nullptr;
    if (int error = ibv_post_srq_recv(srq_.get(), free_, &refused); error != 0) {
        gdr_log(error, "ibv_post_srq_recv failed: %s", verbs::errno_text(error).c_str());
        while (free_ != nullptr && free_ != refused) { // what was taken before the refusal
            free_ = free_->next;
            --free_count_;
        }
        return;
    }
    free_ = nullptr;
    free_count_ = 0;
}

} // namespace gdr::rc
