// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory windows: keys that grant remote access to a part of a region. Those of type 1 serve every
// QP of their protection domain, those of type 2 only the QP through which they were bound (type 2B
// of the InfiniBand specification) until that QP or its peer invalidates them.
#include "emu/softhca/window.hpp"

#include "emu/softhca/engine.hpp"
#include "emu/softhca/ops.hpp"
#include "emu/softhca/send_queue.hpp"

namespace softhca {
namespace {

constexpr std::uint32_t kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint32_t kAnyQpBit = 1u << 31; // in the access flags of a queued bind: type 1

// The caller holds the lock of the arena's windows.
void unbind(Arena& arena, MrShared& window)
{
    if (window.key.exchange(0) != 0) {
        window.forget();
        arena.mrs[window.region % kMaxMrs].windows.fetch_sub(1);
    }
}

bool is_bound(const MrShared& window, std::uint32_t key, std::uint32_t pd, std::uint32_t qp_number)
{
    return key != 0 && window.key.load() == key && window.window == qp_number && window.pd == pd;
}

} // namespace

int check_bind(const ibv_qp& qp, const ibv_send_wr& wr)
{
    const ibv_mw* mw = wr.bind_mw.mw;
    const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
    constexpr std::uint32_t free_bits = 0xff;
    if (mw == nullptr || mw->pd != qp.pd ||
        (mw->rkey & ~free_bits) != (wr.bind_mw.rkey & ~free_bits) ||
        (info.mw_access_flags &
         ~(kRemoteAccess | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED)) != 0 ||
        (info.length != 0 && (info.mr == nullptr || info.mr->pd != qp.pd))) {
        return EINVAL;
    }
    return 0;
}

void describe_bind(WorkRequest& request, const ibv_send_wr& wr)
{
    const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
    request.rkey = wr.bind_mw.rkey;
    request.remote_address = info.addr;
    request.compare_add = info.length;
    request.swap = info.length == 0 ? 0 : info.mr->lkey;
    request.immediate =
        info.mw_access_flags | (wr.bind_mw.mw->type == IBV_MW_TYPE_1 ? kAnyQpBit : 0);
}

Outcome SendQueue::bind(const WorkRequest& wr)
{
    const Outcome refused = Outcome::finished(IBV_WC_MW_BIND_ERR);
    const bool any_qp = (wr.immediate & kAnyQpBit) != 0;
    const std::uint64_t address = wr.remote_address, length = wr.compare_add;
    const auto region_key = static_cast<std::uint32_t>(wr.swap);
    MrShared& window = arena_.mrs[key_index(wr.rkey)];
    {
        const SharedGuard guard(arena_.windows_lock, self_.token());
        if (!any_qp && window.key.load() != 0) {
            return refused; // to be invalidated first
        }
        unbind(arena_, window);
    }
    if (length == 0) {
        return Outcome::finished(IBV_WC_SUCCESS);
    }
    self_.await_peers(arena_); // who may still look at the former range
    const SharedGuard guard(arena_.windows_lock, self_.token());
    const MrShared* region =
        find_region(arena_, region_key, address, length, IBV_ACCESS_MW_BIND, qp_.pd);
    SegmentList beneath;
    const bool writes = (wr.immediate & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if (window.key.load() != 0 || region == nullptr || !beneath.append(*region, address, length) ||
        (writes && (region->access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
        return refused;
    }
    window.access = wr.immediate & kRemoteAccess;
    window.describe({(wr.immediate & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : address, length,
                     beneath.segments[0].address});
    window.pd = qp_.pd;
    window.window = any_qp ? kAnyQp : qp_.number.load();
    window.region = key_index(region_key);
    window.kind = region->kind;
    window.cuda = region->cuda;
    arena_.mrs[key_index(region_key)].windows.fetch_add(1);
    window.key.store(wr.rkey, std::memory_order_release);
    return Outcome::finished(IBV_WC_SUCCESS);
}

Outcome SendQueue::invalidate(const WorkRequest& wr)
{
    return Outcome::finished(invalidate_window(self_, arena_, qp_, wr.immediate)
                                 ? IBV_WC_SUCCESS
                                 : IBV_WC_LOC_QP_OP_ERR);
}

bool may_invalidate(Arena& arena, const QpShared& qp, std::uint32_t key)
{
    return is_bound(arena.mrs[key_index(key)], key, qp.pd, qp.number);
}

bool invalidate_window(Process& self, Arena& arena, const QpShared& qp, std::uint32_t key)
{
    const SharedGuard guard(arena.windows_lock, self.token());
    if (!may_invalidate(arena, qp, key)) {
        return false;
    }
    unbind(arena, arena.mrs[key_index(key)]);
    return true;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type)
{
    if (is_stale(pd->context) || (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)) {
        errno = EINVAL;
        return nullptr;
    }
    Process& self = *context_of(pd->context).process;
    auto mw = std::unique_ptr<ibv_mw>(new (std::nothrow) ibv_mw{});
    const std::uint32_t index = mw == nullptr ? kNone : self.mr_indices.allocate();
    if (index == kNone) {
        errno = ENOMEM;
        return nullptr;
    }
    *mw = {pd->context, pd, self.next_key(index), index, type};
    object_of<Pd>(pd).children.fetch_add(1);
    return mw.release();
}

int dealloc_mw(ibv_mw* mw)
{
    if (is_stale(mw->context)) {
        return 0;
    }
    Process& self = *context_of(mw->context).process;
    {
        const SharedGuard guard(self.arena().windows_lock, self.token());
        unbind(self.arena(), self.arena().mrs[mw->handle]);
    }
    self.await_peers();
    self.mr_indices.release(mw->handle);
    object_of<Pd>(mw->pd).children.fetch_sub(1);
    delete mw;
    return 0;
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind)
{
    ibv_send_wr wr = {}, *bad;
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind->send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = bind->bind_info;
    const int error = post_send(qp, &wr, &bad);
    if (error == 0) {
        mw->rkey = wr.bind_mw.rkey;
    }
    return error;
}

} // namespace softhca
