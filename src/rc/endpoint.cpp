// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The life of an endpoint: creation, connection, completion of its operations, failure,
// destruction.
#include "rc/endpoint.hpp"

#include "abi/host.hpp"
#include "rc/memory_domain.hpp"
#include "rc/wire.hpp"
#include "verbs/error.hpp"
#include "verbs/queue_pair.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <utility>

namespace gdr::rc {

Endpoint::Endpoint(Iface& interface, const DeviceAddress& device, const IfaceAddress& address)
    : window(allowed_window(interface.window, address)), to_look(interface.moderation),
      half_window_mask(window / 2 - 1), peer_device(device), peer(address)
{
    if (abi::init_ep(this, &interface) != UCS_OK) {
        throw std::runtime_error("UCX could not initialise an endpoint");
    }
    id = interface.add_endpoint(this);
    last_wr_id = wr_id_of(id);
}

Endpoint::~Endpoint()
{
    Iface& interface = iface();
    interface.post_chain();
    settle();
    if (owned_qp != nullptr) {
        interface.endpoint_by_qpn.erase(owned_qp->qp_num);
    }
    if (has_outstanding()) {
        verbs::to_error(qp);
        interface.destroy(std::move(owned_qp)); // from here on the HCA touches none of our buffers
    }
    if (qp != nullptr) {
        interface.handshake->disconnect(id, std::move(owned_qp));
    }
    purge(UCS_ERR_CANCELED);
    interface.remove_endpoint(id);
    interface.pending_endpoints.remove(this);
    abi::cleanup_ep(this);
}

void Endpoint::connect()
{
    Iface& interface = iface();
    try {
        ops = SendOps(interface.tx_queue_length);
        uint32_t inline_data = interface.max_inline;
        verbs::QueuePair made =
            interface.create_queue_pair(&inline_data, interface.provider->posting());
        interface.receive_queues->supply(made.get(), Side::active);
        interface.provider->adopt(made.get(), true);
        owned_qp = std::move(made);
        owned_qp->qp_context = this;
        interface.endpoint_by_qpn[owned_qp->qp_num] = this;
        interface.share_out();
        interface.handshake->connect(id, owned_qp.get(), peer_device, peer);
        qp = owned_qp.get();
    } catch (const std::exception& error) {
        gdr_log(error, "cannot connect from %s: %s",
                device_name(interface.device, interface.port).c_str(), error.what());
        fail(dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? UCS_ERR_NO_MEMORY
                                                                    : UCS_ERR_IO_ERROR);
    }
}

void Endpoint::on_connected()
{
    connected = true;
    iface().add_pending(this); // requests that waited for the connection
}

bool Endpoint::replenish()
{
    settle();
    Iface& interface = iface();
    const int room = credits();
    if (room <= 0 || interface.tx_available <= 0) {
        return false;
    }
    // The last message of each half of the window requests a grant.
    const unsigned plain = window > 0 ? (window - 1) & half_window_mask : 0;
    const bool signalled_next = to_look == 1 || interface.tx_available <= interface.tx_scarce;
    budget = std::min(std::min(room, interface.tx_share), static_cast<int>(plain));
    budget = std::min(budget, static_cast<int>(to_look) - 1);
    budget = std::max(std::min(budget, interface.tx_available - interface.tx_scarce), 0);
    if (budget == 0) {
        single = 1;
        extra_flags = !signalled_next ? 0
                      : fence_next    ? IBV_SEND_SIGNALED | IBV_SEND_FENCE
                                      : IBV_SEND_SIGNALED;
        extra_immediate = window > 0 && plain == 0 ? htonl(kWindowRequest) : 0;
    }
    interface.tx_available -= budget + single;
    to_look -= static_cast<unsigned>(budget + single);
    return true;
}

void Endpoint::settle()
{
    if (single == 0 && (extra_flags & IBV_SEND_SIGNALED)) {
        signalled = posted();
        fence_next = false;
        to_look = iface().moderation;
    }
    iface().tx_available += budget + single;
    to_look += static_cast<unsigned>(budget + single);
    budget = 0;
    single = 0;
    extra_flags = 0;
    extra_immediate = 0;
}

ucs_status_t Endpoint::post_signalled(ibv_send_wr& wr)
{
    settle();
    single = 1;
    extra_flags = fence_next ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : IBV_SEND_SIGNALED;
    --iface().tx_available;
    --to_look;
    return post(wr, 0);
}

ucs_status_t Endpoint::post_refused(int error, int& left)
{
    gdr_log(error, "posting on %s failed: %s", iface().device.name().c_str(),
            verbs::errno_text(error).c_str());
    if (signalled == posted()) { // it has no completion, and the one before it is unknown
        signalled = completed;
    }
    last_wr_id -= kNextNumber;
    ++left;
    fail(UCS_ERR_IO_ERROR);
    return UCS_ERR_IO_ERROR;
}

ucs_status_t Endpoint::op_refused(int error, int& left)
{
    const SendOp& op = ops.take_back();
    if (op.buffer != nullptr) {
        iface().buffers->put(op.buffer);
    }
    return post_refused(error, left);
}

// The sequence numbers stay used: the completion that shows all of them flushed comes after them.
void Endpoint::chain_refused(int error, SequenceNumber first)
{
    gdr_log(error, "posting on %s failed: %s", iface().device.name().c_str(),
            verbs::errno_text(error).c_str());
    settle();
    if (not_after(first, signalled)) {
        signalled = first - 1;
    }
    fail(UCS_ERR_IO_ERROR);
}

void Endpoint::close_queue(ucs_status_t status)
{
    iface().post_chain();
    settle();
    failure = status;
    needs_attention();
    iface().add_pending(this); // the requests see the error when they are retried
    if (connected) {
        verbs::to_error(qp);
        iface().finish(*this); // earlier work requests may have no completion of their own
    }
}

void Endpoint::fail(ucs_status_t status)
{
    if (failure != UCS_OK) {
        return; // reported already
    }
    Iface& interface = iface();
    close_queue(status);
    interface.failed_endpoints.push_back(id);
    interface.attention.store(true, std::memory_order_relaxed);
}

void Endpoint::abandon(ucs_status_t status)
{
    iface().post_chain();
    if (connected) { // else the async thread may be about to connect it
        verbs::to_reset(qp);
        iface().provider->forget(*qp);
    }
    connected = false; // from now on nothing is posted, not even a flush marker
    signalled = posted();
    fail(status);
    purge(failure);
}

void Endpoint::purge(ucs_status_t status)
{
    failure = status;
    needs_attention();
    while (!ops.empty()) {
        finish(ops.pop(), status);
    }
    iface().tx_available += static_cast<SequenceNumber>(posted() - completed);
    completed = posted();
    notify_flush_waiters(status);
}

ucs_status_t ep_create(const uct_ep_params_t* params, uct_ep_h* ep)
{
    constexpr uint64_t needed =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    if ((params->field_mask & needed) != needed) {
        return UCS_ERR_INVALID_PARAM;
    }
    Iface& iface = rc_iface(params->iface);
    const auto& device = *reinterpret_cast<const DeviceAddress*>(params->dev_addr);
    const auto& address = *reinterpret_cast<const IfaceAddress*>(params->iface_addr);
    if (iface.port_watch->broken()) {
        gdr_log(diag, "no connection from %s: it is broken",
                device_name(iface.device, iface.port).c_str());
        return UCS_ERR_IO_ERROR;
    }
    if (const char* reason =
            unreachable_reason(iface.device_address, iface.segment_size, &device, &address)) {
        gdr_log(error, "cannot connect from %s: %s", device_name(iface.device, iface.port).c_str(),
                reason);
        return UCS_ERR_UNREACHABLE;
    }
    try {
        auto* endpoint = new Endpoint(iface, device, address);
        *ep = &endpoint->super;
        return UCS_OK;
    } catch (const std::bad_alloc&) {
        return UCS_ERR_NO_MEMORY;
    } catch (const std::exception& error) {
        gdr_log(error, "no endpoint could be made: %s", error.what());
        return UCS_ERR_IO_ERROR;
    }
}

bool ep_is_connected(uct_ep_h ep, const uct_device_addr_t*, const uct_iface_addr_t* iface)
{
    const IfaceAddress& peer = endpoint(ep).peer; // every interface has a different one
    return iface != nullptr && std::memcmp(iface, &peer.tag, sizeof(peer.tag)) == 0 &&
           std::memcmp(iface, &peer, sizeof(peer)) == 0;
}

void ep_destroy(uct_ep_h tl_ep)
{
    Endpoint& ep = endpoint(tl_ep);
    bool somebody_waits =
        !ep.flush_waiters.empty() || ep.ops.any_of_the_user() || ep.awaited_read_modify_writes > 0;
    if (ep.failure == UCS_OK && ep.has_outstanding() && !somebody_waits) {
        // Short and buffered operations are complete for the user, but must still arrive.
        ep.closing = true;
        ep.needs_attention();
        ep.iface().finish(ep);
    } else if (ep.completing()) {
        ep.closing = true;
        ep.close_queue(UCS_ERR_CANCELED);
    } else {
        delete &ep;
    }
}

} // namespace gdr::rc
