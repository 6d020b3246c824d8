// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The receives of a queue pair, from before it is connected until the last one has come back.
#include "rc/queues/own_receive_queues.hpp"

#include "log/log.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <string>
#include <utility>

namespace gdr::rc {
namespace {

// The id of the receive that is posted behind all others of a queue pair in the error state: it
// completes after them. No other id is 0.
constexpr uint64_t kLast = 0;

void post_last(ibv_qp* qp)
{
    ibv_recv_wr last{};
    last.wr_id = kLast;
    ibv_recv_wr* refused;
    (void)ibv_post_recv(qp, &last, &refused); // if refused, the queue pair ends by timeout
}

} // namespace

OwnReceiveQueues::OwnReceiveQueues(ibv_pd* pd, Receives& receives, const ReceiveLayout& layout,
                                   unsigned window, unsigned most)
    : pd_(pd), receives_(receives), layout_(layout), window_(window), most_(most),
      no_data_(pd, layout.stride())
{
    receives_.open(*this, kBatch, false);
}

void OwnReceiveQueues::ask_for(ibv_qp_cap& capabilities, Side side) const
{
    capabilities.max_recv_wr = work_requests(side, window_);
    capabilities.max_recv_sge = 1;
}

bool OwnReceiveQueues::full() const
{
    const std::lock_guard guard(lock_);
    return taken_ + work_requests(Side::passive, window_) > most_;
}

void OwnReceiveQueues::supply(ibv_qp* qp, Side side)
{
    const unsigned count = length(side, window_);
    auto queue = std::make_unique<OwnReceiveQueue>();
    queue->qp = qp;
    queue->count = count;
    queue->receives = std::make_unique<Receive[]>(count);
    if (side == Side::passive) {
        queue->memory = RegisteredMemory(pd_, count * layout_.stride());
    }
    for (unsigned i = 0; i < count; ++i) {
        Receive& receive = queue->receives[i];
        if (side == Side::passive) {
            layout_.place(receive, queue->memory.data() + i * layout_.stride(),
                          queue->memory.lkey());
        } else {
            layout_.place(receive, no_data_.data(), no_data_.lkey());
        }
        receive.queue = queue.get();
        receive.wr.next = i + 1 < count ? &queue->receives[i + 1].wr : nullptr;
    }
    ibv_recv_wr* const first = &queue->receives[0].wr;
    {
        const std::lock_guard guard(lock_);
        if (taken_ + count + 1 > most_) {
            throw verbs::Error("taking " + std::to_string(count) +
                                   " more receives of UCX_GDR_RC_RX_QUEUE_LEN",
                               ENOMEM);
        }
        taken_ += count + 1;
        queues_.insert_or_assign(qp->qp_num, std::move(queue));
    }
    ibv_recv_wr* refused;
    if (int error = ibv_post_recv(qp, first, &refused); error != 0) {
        throw verbs::Error("ibv_post_recv", error);
    }
}

ibv_recv_wr* OwnReceiveQueues::post(ibv_recv_wr* list)
{
    OwnReceiveQueue* queues = nullptr;
    while (list != nullptr) {
        ibv_recv_wr* const wr = std::exchange(list, list->next);
        OwnReceiveQueue& queue = *Receive::of(wr->wr_id)->queue;
        if (queue.ending) {
            come_back(queue);
            continue;
        }
        if (queue.again == nullptr) {
            queue.next = std::exchange(queues, &queue);
        }
        wr->next = std::exchange(queue.again, wr);
    }
    for (; queues != nullptr; queues = queues->next) {
        ibv_recv_wr* refused = nullptr;
        int error = ibv_post_recv(queues->qp, std::exchange(queues->again, nullptr), &refused);
        if (error != 0) {
            gdr_log(error, "%s: a connection has fewer receive buffers: ibv_post_recv failed: %s",
                    ibv_get_device_name(queues->qp->context->device),
                    verbs::errno_text(error).c_str());
            for (; refused != nullptr; refused = refused->next) {
                ++queues->back;
            }
        }
    }
    return nullptr;
}

// The queue pair is in the error state, so all of its receives come back.
ibv_qp* OwnReceiveQueues::take_unfilled(const ibv_wc& wc)
{
    if (wc.wr_id == kLast) {
        receives_.post_free(); // receives before it count too
        const std::lock_guard guard(lock_);
        auto found = queues_.find(wc.qp_num);
        return found != queues_.end() ? found->second->qp : nullptr;
    }
    OwnReceiveQueue& queue = *Receive::of(wc.wr_id)->queue;
    if (!std::exchange(queue.ending, true)) {
        post_last(queue.qp);
    }
    come_back(queue);
    return nullptr;
}

void OwnReceiveQueues::come_back(OwnReceiveQueue& queue)
{
    if (++queue.back == queue.count && queue.qp == nullptr) {
        gone_.erase(&queue);
    }
}

void OwnReceiveQueues::forget(ibv_qp* qp)
{
    std::unique_ptr<OwnReceiveQueue> queue;
    {
        const std::lock_guard guard(lock_);
        auto found = queues_.find(qp->qp_num);
        if (found == queues_.end()) {
            return;
        }
        queue = std::move(found->second);
        queues_.erase(found);
        taken_ -= queue->count + 1;
    }
    queue->ending = true;
    receives_.post_free();
    queue->qp = nullptr;
    if (queue->back < queue->count) {
        gone_.emplace(queue.get(), std::move(queue));
    }
}

} // namespace gdr::rc
