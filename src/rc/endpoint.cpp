// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The life of an endpoint: creation, connection, completion of its operations, failure,
// destruction.
#include "rc/endpoint.hpp"

#include "abi/completion.hpp"
#include "log/log.hpp"
#include "rc/connect/wire.hpp"
#include "rc/words_under_way.hpp"
#include "verbs/error.hpp"
#include "verbs/queue_pair.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <utility>

namespace gdr::rc {
namespace {

void log_refusal(const Endpoint& ep, int error)
{
    gdr_log(error, "a connection from %s failed: the HCA takes no work request: %s",
            ep.ports().c_str(), verbs::errno_text(error).c_str());
}

} // namespace

Endpoint::Endpoint(Iface& interface, const DeviceAddress& device, const IfaceAddress& address)
    : window(allowed_window(interface.limits.window(), address)),
      to_look(interface.limits.moderation()), half_window_mask(window / 2 - 1), peer_device(device),
      peer(address)
{
    if (abi::init_ep(this, &interface) != UCS_OK) {
        throw std::runtime_error("UCX could not initialise an endpoint");
    }
    id = interface.endpoints.add(this);
    last_wr_id = wr_id_of(id);
}

Endpoint::~Endpoint()
{
    Iface& interface = iface();
    interface.poster.post_chain();
    settle();
    if (owned_qp != nullptr) {
        interface.endpoints.remove_queue_pair(owned_qp->qp_num);
    }
    if (has_outstanding()) {
        verbs::to_error(qp);
        interface.destroy(std::move(owned_qp)); // from here on the HCA touches none of our buffers
    }
    if (qp != nullptr) {
        interface.handshake->disconnect(id, std::move(owned_qp));
    }
    purge(UCS_ERR_CANCELED);
    interface.endpoints.remove(id);
    interface.share_out();
    interface.pending_endpoints.remove(this);
    abi::cleanup_ep(this);
}

std::string Endpoint::ports() const
{
    return iface().name() + " to the peer at " + to_string(peer_device);
}

void Endpoint::connect()
{
    Iface& interface = iface();
    try {
        ops = SendOps(interface.limits.queue_length());
        flush_waiters.reserve(kUsualFlushes);
        owned_qp = interface.queue_pairs->make();
        owned_qp->qp_context = this;
        interface.endpoints.add_queue_pair(owned_qp->qp_num, this);
        interface.share_out();
        interface.handshake->connect(id, owned_qp.get(), peer_device, peer);
        qp = owned_qp.get();
    } catch (const std::exception& error) {
        gdr_log(error, "cannot connect from %s: %s", ports().c_str(), error.what());
        fail(dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? UCS_ERR_NO_MEMORY
                                                                    : UCS_ERR_IO_ERROR);
    }
}

void Endpoint::on_connected()
{
    connected = true;
    iface().pending_endpoints.add(this); // requests that waited for the connection
}

bool Endpoint::replenish()
{
    settle();
    Iface& interface = iface();
    const int room = credits();
    if (room <= 0 || interface.credits.available() <= 0) {
        return false;
    }
    // The last message of each half of the window requests a grant.
    const unsigned plain = window > 0 ? (window - 1) & half_window_mask : 0;
    const bool signalled_next =
        to_look == 1 || interface.credits.available() <= interface.credits.scarce();
    budget = std::min(std::min(room, interface.credits.share()), static_cast<int>(plain));
    budget = std::min(budget, static_cast<int>(to_look) - 1);
    budget =
        std::max(std::min(budget, interface.credits.available() - interface.credits.scarce()), 0);
    if (budget == 0) {
        single = 1;
        extra_flags = !signalled_next ? 0
                      : fence_next    ? IBV_SEND_SIGNALED | IBV_SEND_FENCE
                                      : IBV_SEND_SIGNALED;
        extra_immediate = window > 0 && plain == 0 ? htonl(kWindowRequest) : 0;
    }
    interface.credits.take(budget + single);
    to_look -= static_cast<unsigned>(budget + single);
    return true;
}

void Endpoint::settle()
{
    if (single == 0 && (extra_flags & IBV_SEND_SIGNALED)) {
        signalled = posted();
        fence_next = false;
        to_look = iface().limits.moderation();
    }
    iface().credits.give_back(budget + single);
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
    iface().credits.take(1);
    --to_look;
    return post(wr, 0);
}

ucs_status_t Endpoint::post_refused(int error, int& left)
{
    log_refusal(*this, error);
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
    log_refusal(*this, error);
    settle();
    if (not_after(first, signalled)) {
        signalled = first - 1;
    }
    fail(UCS_ERR_IO_ERROR);
}

void Endpoint::close_queue(ucs_status_t status)
{
    iface().poster.post_chain();
    settle();
    failure = status;
    needs_attention();
    iface().pending_endpoints.add(this); // the requests see the error when they are retried
    if (connected) {
        verbs::to_error(qp);
        signal_last(); // earlier work requests may have no completion of their own
    }
}

void Endpoint::fail(ucs_status_t status)
{
    if (failure != UCS_OK) {
        return; // reported already
    }
    close_queue(status);
    iface().endpoint_tasks.report(id);
}

void Endpoint::abandon(ucs_status_t status)
{
    iface().poster.post_chain();
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
    iface().credits.give_back(static_cast<SequenceNumber>(posted() - completed));
    completed = posted();
    notify_flush_waiters(status);
}

void Endpoint::notify_flush_waiters(ucs_status_t status)
{
    // A completion called here may add a waiter; it comes later in the list or in the next round.
    for (size_t i = 0; i < flush_waiters.size();) {
        FlushWaiter& waiter = flush_waiters[i];
        waiter.reached = waiter.reached || not_after(waiter.number, completed);
        if (!waiter.reached || waiter.atomics > 0) {
            ++i;
        } else {
            uct_completion_t* completion = waiter.completion;
            flush_waiters.erase(flush_waiters.begin() + static_cast<std::ptrdiff_t>(i));
            abi::complete(completion, status);
        }
    }
}

void Endpoint::finish_read_modify_write(const ReadModifyWrite& rmw)
{
    --read_modify_writes;
    awaited_read_modify_writes -= rmw.atomic.awaited();
    waiting_read_modify_writes -= rmw.waited;
    for (FlushWaiter& waiter : flush_waiters) {
        waiter.atomics -= static_cast<int>(waiter.flush - rmw.flushes) > 0;
    }
    if (read_modify_writes == 0) {
        fenced = false;
        let_go();
    }
}

void Endpoint::signal_last()
{
    if (unsignalled() == 0 || (failure == UCS_OK && credits() <= 0)) {
        return; // a completion is on its way: handle_sent_end() comes back here
    }
    if (iface().credits.available() > 0) {
        (void)post_flush_marker(); // if refused, the endpoint has failed and ends soon
    } else {
        iface().endpoint_tasks.signal(id);
    }
}

} // namespace gdr::rc
