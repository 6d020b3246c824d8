// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Shared receive queues.
#include "emu/softhca/channel.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/receive.hpp"

namespace softhca {

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad)
{
    Srq& srq = object_of<Srq>(base);
    const OneThreadGuard one_thread(srq.one_thread, "SRQ");
    Process& self = *context_of(base->context).process;
    bool waiting = false;
    const int error = post_recv_list(self, srq.queue.index, wr, bad, waiting);
    if (waiting) {
        const std::lock_guard<std::mutex> guard(srq.mutex);
        serve_waiting_peers(self, srq.queue.index, srq.attached.data(), srq.attached.size());
    }
    return error;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes)
{
    const ibv_srq_attr& wanted = attributes->attr;
    const Profile& profile = profile_of(context_of(pd->context).device);
    if (profile.max_srq == 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (is_stale(pd->context) || profile.refuses_srq || wanted.max_wr == 0 ||
        wanted.max_wr > profile.max_srq_wr || wanted.max_sge > profile.max_sge) {
        errno = EINVAL;
        return nullptr;
    }
    Process& self = *context_of(pd->context).process;
    auto srq = std::unique_ptr<Srq>(new (std::nothrow) Srq{});
    const std::uint32_t index = srq == nullptr ? kNone : self.srq_indices.allocate();
    if (index == kNone) {
        errno = ENOMEM;
        return nullptr;
    }
    srq->queue.index = kMaxQps + index;
    try {
        create_recv_queue(self, srq->queue, wanted.max_wr, wanted.max_sge, object_of<Pd>(pd).id,
                          context_of(pd->context).async.write_end);
    } catch (const std::bad_alloc&) {
        self.srq_indices.release(index);
        errno = ENOMEM;
        return nullptr;
    }
    srq->base.context = pd->context;
    srq->base.srq_context = attributes->srq_context;
    srq->base.pd = pd;
    srq->base.handle = index;
    pthread_mutex_init(&srq->base.mutex, nullptr);
    pthread_cond_init(&srq->base.cond, nullptr);
    object_of<Pd>(pd).children.fetch_add(1);
    if (object_of<Pd>(pd).is_for_one_thread()) {
        srq->one_thread.promise();
        self.thread_domain_queues.fetch_add(1);
    }
    set_srq(index, srq.get());
    return &srq.release()->base;
}

int modify_srq(ibv_srq* base, ibv_srq_attr* attributes, int mask)
{
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        return EOPNOTSUPP;
    }
    if (is_stale(base->context) || (mask & ~IBV_SRQ_LIMIT) != 0) {
        return EINVAL;
    }
    Process& self = *context_of(base->context).process;
    RqShared& queue = self.arena().recv_queue(object_of<Srq>(base).queue.index);
    bool reached = false;
    std::uint32_t generation;
    {
        const SharedGuard guard(queue.lock, self.token());
        if ((mask & IBV_SRQ_LIMIT) != 0) {
            if (attributes->srq_limit > queue.max_wr) {
                return EINVAL;
            }
            reached = queue.tail - queue.head < attributes->srq_limit;
            queue.limit = reached ? 0 : attributes->srq_limit;
        }
        generation = queue.generation;
    }
    if (reached) {
        raise_event(self, self.arena(), context_of(base->context).async.write_end,
                    IBV_EVENT_SRQ_LIMIT_REACHED, base->handle, generation);
    }
    return 0;
}

int query_srq(ibv_srq* base, ibv_srq_attr* attributes)
{
    if (is_stale(base->context)) {
        return EINVAL;
    }
    Process& self = *context_of(base->context).process;
    RqShared& queue = self.arena().recv_queue(object_of<Srq>(base).queue.index);
    const SharedGuard guard(queue.lock, self.token());
    attributes->max_wr = queue.max_wr;
    attributes->max_sge = queue.max_sge;
    attributes->srq_limit = queue.limit;
    return 0;
}

int destroy_srq(ibv_srq* base)
{
    if (is_stale(base->context)) {
        return 0;
    }
    Srq& srq = object_of<Srq>(base);
    if (srq.children.load() != 0) {
        return EBUSY;
    }
    Process& self = *context_of(base->context).process;
    set_srq(base->handle, nullptr);
    await_acknowledged(base->mutex, base->cond, base->events_completed, srq.events_delivered);
    destroy_recv_queue(self, srq.queue);
    self.srq_indices.release(base->handle);
    object_of<Pd>(base->pd).children.fetch_sub(1);
    delete &srq;
    return 0;
}

} // namespace softhca
