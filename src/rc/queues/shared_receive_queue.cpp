// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates and enlarges a shared receive queue.
#include "rc/queues/shared_receive_queue.hpp"

#include "log/log.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace gdr::rc {
namespace {

verbs::SharedReceiveQueue create(ibv_pd* pd, unsigned length)
{
    ibv_srq_init_attr init{};
    init.attr.max_wr = length;
    init.attr.max_sge = 1;
    return verbs::SharedReceiveQueue(ibv_create_srq(pd, &init));
}

} // namespace

bool SharedReceiveQueue::possible(ibv_pd* pd, const ibv_device_attr& limits)
{
    return limits.max_srq > 0 && limits.max_srq_wr > 0 && (create(pd, 1) || errno == ENOMEM);
}

SharedReceiveQueue::SharedReceiveQueue(Provider& provider, Receives& receives,
                                       CompletionRoom& completions, const ReceiveLayout& layout,
                                       unsigned length, unsigned most)
    : pd_(provider.pd()), post_(provider.post_receives()), receives_(receives),
      completions_(completions), layout_(layout), most_(most)
{
    unsigned count = length;
    auto memory = RegisteredMemory::for_as_many(pd_, layout_.stride(), kShortest, &count,
                                                "receive buffers", "UCX_GDR_RC_RX_QUEUE_LEN");
    if (count < length) {
        most_ = count;
    }
    if (!completions_.take(count)) {
        throw verbs::Error("taking " + std::to_string(count) + " entries of the completion queue",
                           ENOMEM);
    }
    srq_ = create(pd_, most_);
    if (!srq_) {
        throw verbs::Error("ibv_create_srq(" + std::to_string(most_) + ")", errno);
    }
    provider.adopt(srq_.get());
    receives_.open(*this, kBatch, true);
    add(std::move(memory), count);
}

void SharedReceiveQueue::add(RegisteredMemory memory, unsigned count)
{
    // clang 14, which builds the fuzzers, cannot construct an aggregate in place.
    Part& part = parts_.emplace_back(Part{std::move(memory), std::make_unique<Receive[]>(count)});
    for (unsigned i = 0; i < count; ++i) {
        layout_.place(part.receives[i], part.memory.data() + i * layout_.stride(),
                      part.memory.lkey());
        layout_.let_keep(part.receives[i]);
    }
    length_ += count;
    receives_.add(part.receives.get(), count);
}

void SharedReceiveQueue::grow(size_t wanted)
{
    while (length_ < wanted && length_ < most_) {
        const unsigned count = std::min(length_, most_ - length_);
        if (!completions_.take(count)) {
            most_ = length_;
            return;
        }
        try {
            add(RegisteredMemory(pd_, count * layout_.stride()), count);
        } catch (const std::exception& error) {
            completions_.give_back(count);
            gdr_log(
                warn,
                "only %u of %u receive buffers can be registered, with which many peers are served "
                "more slowly: %s. UCX_GDR_RC_RX_QUEUE_LEN=%u asks for no more",
                length_, most_, cause_of(error).c_str(), length_);
            most_ = length_;
        }
    }
}

ibv_recv_wr* SharedReceiveQueue::post(ibv_recv_wr* list)
{
    ibv_recv_wr* refused = nullptr;
    int error = post_(srq_.get(), list, &refused);
    if (error == 0) {
        return nullptr;
    }
    gdr_log(error, "%s: receive buffers are posted again later: ibv_post_srq_recv failed: %s",
            ibv_get_device_name(pd_->context->device), verbs::errno_text(error).c_str());
    return refused;
}

// A receive that broke off comes back when its queue pair ends.
ibv_qp* SharedReceiveQueue::take_unfilled(const ibv_wc& wc)
{
    receives_.put(Receive::of(wc.wr_id));
    return nullptr;
}

} // namespace gdr::rc
