// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Takes the place of functions of libibverbs and libucs in front of the module.
#include "wire.hpp"

#include "target.hpp"

#include "../emu/preload.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include <dlfcn.h>
#include <poll.h>

extern "C" {
#include <ucs/async/async_fwd.h>
}

namespace fuzz {
namespace {

struct Posted {
    uint64_t wr_id;
    ibv_sge sge;
};

struct Handler {
    ucs_async_event_cb_t call;
    void* arg;
};

std::vector<Sent> sent;
std::map<const void*, std::deque<Posted>> receives; // by queue pair or SRQ
std::map<uint32_t, ibv_qp*> receivers;              // queue pairs with receives of their own
std::map<const ibv_cq*, std::deque<ibv_wc>> completions;
std::map<int, Handler> handlers;

template <typename Function>
Function* original(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* polled)
{
    std::deque<ibv_wc>& waiting = completions[cq];
    int count = 0;
    for (; count < most && !waiting.empty(); waiting.pop_front()) {
        polled[count++] = waiting.front();
    }
    return count;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**)
{
    for (; wr != nullptr; wr = wr->next) {
        Sent& message = sent.emplace_back();
        message.qp = qp;
        message.remote_qpn = qp->qp_type == IBV_QPT_UD ? wr->wr.ud.remote_qpn : 0;
        for (int i = 0; i < wr->num_sge; ++i) {
            auto* data = reinterpret_cast<const char*>(wr->sg_list[i].addr);
            message.data.insert(message.data.end(), data, data + wr->sg_list[i].length);
        }
        if (wr->send_flags & IBV_SEND_SIGNALED) {
            ibv_wc completion{};
            completion.wr_id = wr->wr_id;
            completion.qp_num = qp->qp_num;
            complete(qp->send_cq, completion);
        }
    }
    return 0;
}

void post_receives(const void* queue, const ibv_recv_wr* wr)
{
    for (; wr != nullptr; wr = wr->next) {
        receives[queue].push_back({wr->wr_id, wr->sg_list[0]});
    }
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr**)
{
    receivers[qp->qp_num] = qp;
    post_receives(qp, wr);
    return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr**)
{
    post_receives(srq, wr);
    return 0;
}

bool fill(const void* queue, ibv_cq* cq, const void* data, size_t length, ibv_wc completion)
{
    std::deque<Posted>& posted = receives[queue];
    if (posted.empty()) {
        return false;
    }
    const Posted next = posted.front();
    posted.pop_front();
    if (length > 0) {
        std::memcpy(reinterpret_cast<void*>(next.sge.addr), data,
                    std::min<size_t>(length, next.sge.length));
    }
    completion.wr_id = next.wr_id;
    complete(cq, completion);
    return true;
}

// Those of completion channels are not, since softhca knows of no completion.
std::vector<int> readable()
{
    std::vector<pollfd> descriptors;
    for (const auto& [fd, handler] : handlers) {
        descriptors.push_back({fd, POLLIN, 0});
    }
    std::vector<int> found;
    if (poll(descriptors.data(), descriptors.size(), 0) > 0) {
        for (const pollfd& descriptor : descriptors) {
            if (descriptor.revents & POLLIN) {
                found.push_back(descriptor.fd);
            }
        }
    }
    for (const auto& [cq, waiting] : completions) {
        if (!waiting.empty() && cq->channel != nullptr && handlers.contains(cq->channel->fd)) {
            found.push_back(cq->channel->fd);
        }
    }
    return found;
}

} // namespace

std::vector<Sent> take_sent()
{
    return std::exchange(sent, {});
}

void complete(ibv_cq* cq, const ibv_wc& completion)
{
    completions[cq].push_back(completion);
}

bool receive(ibv_srq* srq, ibv_cq* cq, const void* data, size_t length, ibv_wc completion)
{
    return fill(srq, cq, data, length, completion);
}

void receive_datagram(uint32_t qpn, const void* data, size_t length, uint32_t source)
{
    constexpr size_t kGrh = 40;
    char datagram[kGrh + kLongestDatagram] = {};
    std::memcpy(datagram + kGrh, data, length);
    ibv_wc completion{};
    completion.opcode = IBV_WC_RECV;
    completion.src_qp = source;
    completion.byte_len = static_cast<uint32_t>(kGrh + length);
    ibv_qp* qp = receivers.at(qpn);
    fill(qp, qp->recv_cq, datagram, kGrh + length, completion);
}

void asynchronous_turns()
{
    for (std::vector<int> called; !(called = readable()).empty();) {
        for (int fd : called) {
            if (auto found = handlers.find(fd); found != handlers.end()) {
                found->second.call(fd, UCS_EVENT_SET_EVREAD, found->second.arg);
            }
        }
    }
}

void start(char** argv)
{
    setenv("SOFTHCA_DEVICES", "1", 1);
    run_on_softhca(argv);
}

} // namespace fuzz

extern "C" {

// The definitions below precede the libraries' own.
#pragma GCC visibility push(default)

ibv_context* ibv_open_device(ibv_device* device)
{
    ibv_context* context = fuzz::original<ibv_context*(ibv_device*)>("ibv_open_device")(device);
    if (context != nullptr) {
        context->ops.poll_cq = fuzz::poll_cq;
        context->ops.post_send = fuzz::post_send;
        context->ops.post_recv = fuzz::post_recv;
        context->ops.post_srq_recv = fuzz::post_srq_recv;
    }
    return context;
}

int ibv_destroy_qp(ibv_qp* qp)
{
    fuzz::receives.erase(qp);
    fuzz::receivers.erase(qp->qp_num);
    return fuzz::original<int(ibv_qp*)>("ibv_destroy_qp")(qp);
}

ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t, int fd, ucs_event_set_types_t,
                                         ucs_async_event_cb_t call, void* arg, ucs_async_context_t*)
{
    fuzz::handlers[fd] = {call, arg};
    return UCS_OK;
}

ucs_status_t ucs_async_remove_handler(int id, int sync)
{
    if (fuzz::handlers.erase(id) > 0) {
        return UCS_OK;
    }
    return fuzz::original<ucs_status_t(int, int)>("ucs_async_remove_handler")(id, sync);
}

#pragma GCC visibility pop
}
