// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reads before operations that write.
#include "rc/ops/relaxed_writes.hpp"

#include "rc/ops/gather.hpp"

#include <algorithm>
#include <tuple>

namespace gdr::rc {
namespace {

// Posts the read if there is also room for the operation behind it.
ucs_status_t read_byte(Endpoint& ep, uint64_t remote_addr, uct_rkey_t rkey)
{
    Iface& iface = ep.iface();
    if (!ep.can_post() || ep.credits() < 2 || !iface.buffers->any()) {
        return ep.unavailable();
    }
    std::byte* const buffer = iface.buffers->take();
    iface.prepared.set_buffer(buffer, 1);
    set_remote(iface.prepared.read, remote_addr, rkey);
    if (const ucs_status_t status = ep.post_signalled(iface.prepared.read); status != UCS_OK) {
        iface.buffers->put(buffer);
        return status;
    }
    SendOp& op = ep.ops.next();
    op.kind = SendOp::Kind::buffer;
    op.buffer = buffer;
    ep.remember(op);
    return UCS_OK;
}

ucs_status_t read_after_order(Endpoint& ep, uint64_t remote_addr, uct_rkey_t rkey)
{
    const unsigned orders = ep.iface().reads_before_writes->orders;
    LastRead& last = ep.last_reads[verbs_rkey(rkey) % ep.last_reads.size()];
    if (orders == 0 || (last.rkey == rkey && last.orders == orders)) {
        return UCS_OK;
    }
    const ucs_status_t status = read_byte(ep, remote_addr, rkey);
    if (status == UCS_OK) {
        ep.wait_for_reads();
        last = {rkey, orders};
    }
    return status;
}

// An operation without bytes writes nothing, and its address may be outside the memory.
bool writes_nothing(const void*, unsigned length)
{
    return length == 0;
}
bool writes_nothing(const uct_iov_t* pieces, size_t count)
{
    return std::all_of(pieces, pieces + count,
                       [](const uct_iov_t& piece) { return piece.length * piece.count == 0; });
}
bool writes_nothing(auto, auto)
{
    return false;
}

template <auto operation, size_t address>
struct BehindRead;

// Argument number `address` after the endpoint is the remote address, the next one the key.
template <class Result, class... Arguments,
          Result (*uct_iface_ops_t::*operation)(uct_ep_h, Arguments...), size_t address>
struct BehindRead<operation, address> {
    static Result call(uct_ep_h tl_ep, Arguments... arguments)
    {
        Endpoint& ep = endpoint(tl_ep);
        const auto all = std::tie(arguments...);
        if (!writes_nothing(std::get<0>(all), std::get<1>(all))) {
            const ucs_status_t status =
                read_after_order(ep, std::get<address>(all), std::get<address + 1>(all));
            if (status != UCS_OK) {
                return static_cast<Result>(status);
            }
        }
        return (ep.iface().reads_before_writes->operations.*operation)(tl_ep, arguments...);
    }
};

Iface& interface_of(uct_ep_h ep)
{
    return endpoint(ep).iface();
}
Iface& interface_of(uct_iface_h iface)
{
    return rc_iface(iface);
}

template <auto operation>
struct Noted;

template <class Object, class... Arguments,
          ucs_status_t (*uct_iface_ops_t::*operation)(Object, Arguments...)>
struct Noted<operation> {
    static ucs_status_t call(Object object, Arguments... arguments)
    {
        ReadsBeforeWrites& reads = *interface_of(object).reads_before_writes;
        ++reads.orders;
        return (reads.operations.*operation)(object, arguments...);
    }
};

template <auto operation>
void note(uct_iface_ops_t& operations)
{
    operations.*operation = Noted<operation>::call;
}

template <auto operation, size_t address>
void put_before(uct_iface_ops_t& operations)
{
    operations.*operation = BehindRead<operation, address>::call;
}

} // namespace

void read_before_writes(Iface& iface)
{
    uct_iface_ops_t& operations = iface.super.ops;
    iface.reads_before_writes = std::make_unique<ReadsBeforeWrites>();
    iface.reads_before_writes->operations = operations;
    put_before<&uct_iface_ops_t::ep_put_short, 2>(operations);
    put_before<&uct_iface_ops_t::ep_put_bcopy, 2>(operations);
    put_before<&uct_iface_ops_t::ep_put_zcopy, 2>(operations);
    put_before<&uct_iface_ops_t::ep_atomic_cswap32, 2>(operations);
    put_before<&uct_iface_ops_t::ep_atomic_cswap64, 2>(operations);
    put_before<&uct_iface_ops_t::ep_atomic32_post, 2>(operations);
    put_before<&uct_iface_ops_t::ep_atomic64_post, 2>(operations);
    put_before<&uct_iface_ops_t::ep_atomic32_fetch, 3>(operations);
    put_before<&uct_iface_ops_t::ep_atomic64_fetch, 3>(operations);
    note<&uct_iface_ops_t::ep_fence>(operations);
    note<&uct_iface_ops_t::ep_flush>(operations);
    note<&uct_iface_ops_t::iface_fence>(operations);
    note<&uct_iface_ops_t::iface_flush>(operations);
}

} // namespace gdr::rc
