// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Takes the place of functions of libibverbs, libucs, the C and the C++ library in front of the
// module.
#include "wire.hpp"

#include "target.hpp"

#include "../emu/preload.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <poll.h>
#include <sys/timerfd.h>

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

struct Completions {
    std::deque<ibv_wc> waiting;
    bool armed = false;
    bool event = false;
};

using Clock = std::chrono::steady_clock;

std::vector<Sent> sent;
std::map<const void*, std::deque<Posted>> receives; // by queue pair or SRQ
std::map<uint32_t, ibv_qp*> receivers;              // queue pairs with receives of their own
std::map<ibv_cq*, Completions> completions;
std::map<int, Handler> handlers;
std::map<int, Clock::time_point> timers;
std::map<int, bool> event_counters; // whether it was written
bool hca_events = true;             // there may be some
using Thread = std::unique_ptr<std::thread::_State>;
std::deque<Thread> threads; // not run yet
Clock::time_point now{std::chrono::hours(1)};

template <typename Function>
Function* original(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* polled)
{
    std::deque<ibv_wc>& waiting = completions[cq].waiting;
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
        message.qp_type = qp->qp_type;
        message.qp_num = qp->qp_num;
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

int req_notify_cq(ibv_cq* cq, int)
{
    completions[cq].armed = true;
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

// softhca's threads have no part in it: none of the signals that are blocked in a thread may stay
// so.
void run_threads()
{
    while (!threads.empty()) {
        const auto thread = std::move(threads.front());
        threads.pop_front();
        sigset_t signals;
        pthread_sigmask(SIG_SETMASK, nullptr, &signals);
        thread->_M_run();
        pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    }
}

std::vector<int> readable()
{
    std::vector<int> found;
    if (std::exchange(hca_events, false)) {
        static std::vector<pollfd> descriptors; // made once
        descriptors.clear();
        for (const auto& [fd, handler] : handlers) {
            descriptors.push_back({fd, POLLIN, 0});
        }
        poll(descriptors.data(), descriptors.size(), 0);
        for (const pollfd& descriptor : descriptors) {
            if (descriptor.revents & POLLIN) {
                found.push_back(descriptor.fd);
            }
        }
    }
    for (const auto& [fd, written] : event_counters) {
        if (written && handlers.contains(fd)) {
            found.push_back(fd);
        }
    }
    for (const auto& [cq, queue] : completions) {
        if (queue.event && handlers.contains(cq->channel->fd)) {
            found.push_back(cq->channel->fd);
        }
    }
    for (auto at = timers.begin(); at != timers.end();) {
        if (at->second <= now) {
            found.push_back(at->first);
            at = timers.erase(at);
        } else {
            ++at;
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
    Completions& queue = completions[cq];
    queue.waiting.push_back(completion);
    if (std::exchange(queue.armed, false) && cq->channel != nullptr) {
        queue.event = true;
    }
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

void pass(std::chrono::milliseconds time)
{
    now += time;
    asynchronous_turns();
}

bool awaits_time()
{
    return !timers.empty();
}

void asynchronous_turns()
{
    run_threads();
    for (std::vector<int> called; !(called = readable()).empty();) {
        for (int fd : called) {
            if (auto found = handlers.find(fd); found != handlers.end()) {
                found->second.call(fd, UCS_EVENT_SET_EVREAD, found->second.arg);
            }
        }
        run_threads();
    }
}

void start(char** argv)
{
    setenv("SOFTHCA_DEVICES", "1", 1);
    run_on_emulated_hca(argv);
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
        context->ops.req_notify_cq = fuzz::req_notify_cq;
    }
    return context;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context)
{
    for (auto& [known, queue] : fuzz::completions) {
        if (known->channel == channel && std::exchange(queue.event, false)) {
            *cq = known;
            *context = known->cq_context;
            return 0;
        }
    }
    errno = EAGAIN;
    return -1;
}

void ibv_ack_cq_events(ibv_cq*, unsigned) {}

int ibv_destroy_cq(ibv_cq* cq)
{
    fuzz::completions.erase(cq);
    return fuzz::original<int(ibv_cq*)>("ibv_destroy_cq")(cq);
}

int ibv_destroy_qp(ibv_qp* qp)
{
    fuzz::receives.erase(qp);
    fuzz::receivers.erase(qp->qp_num);
    return fuzz::original<int(ibv_qp*)>("ibv_destroy_qp")(qp);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask)
{
    fuzz::hca_events = true;
    return fuzz::original<int(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp")(qp, attributes, mask);
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

// By the linker's --wrap, of what is linked in: not for softhca, which has time and threads of its
// own.

// A time_point is returned as its number is.
fuzz::Clock::rep __wrap__ZNSt6chrono3_V212steady_clock3nowEv()
{
    return fuzz::now.time_since_epoch().count();
}

int __wrap_timerfd_settime(int fd, int, const itimerspec* spec, itimerspec*)
{
    const auto delay = std::chrono::seconds(spec->it_value.tv_sec) +
                       std::chrono::nanoseconds(spec->it_value.tv_nsec);
    if (delay.count() == 0) {
        fuzz::timers.erase(fd);
    } else {
        fuzz::timers[fd] = fuzz::now + delay;
    }
    return 0;
}

int __real_eventfd(unsigned count, int flags);
ssize_t __real_write(int fd, const void* data, size_t length);
ssize_t __real_read(int fd, void* data, size_t length);

int __wrap_eventfd(unsigned count, int flags)
{
    const int fd = __real_eventfd(count, flags);
    fuzz::event_counters[fd] = false;
    return fd;
}

ssize_t __wrap_write(int fd, const void* data, size_t length)
{
    auto counter = fuzz::event_counters.find(fd);
    if (counter == fuzz::event_counters.end()) {
        return __real_write(fd, data, length);
    }
    counter->second = true;
    return static_cast<ssize_t>(length);
}

ssize_t __wrap_read(int fd, void* data, size_t length)
{
    auto counter = fuzz::event_counters.find(fd);
    if (counter == fuzz::event_counters.end()) {
        return __real_read(fd, data, length);
    }
    counter->second = false;
    return static_cast<ssize_t>(length);
}

void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, fuzz::Thread* thread, void (*)())
{
    fuzz::threads.push_back(std::move(*thread));
    *reinterpret_cast<std::thread::native_handle_type*>(self) = 1; // joinable
}

void __wrap__ZNSt6thread4joinEv(std::thread* self)
{
    fuzz::run_threads();
    *reinterpret_cast<std::thread::native_handle_type*>(self) = 0;
}

void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, fuzz::Thread* thread, void (*)());
void __real__ZNSt6thread6detachEv(std::thread* self);

// Only libFuzzer does: its thread runs by itself.
void __wrap__ZNSt6thread6detachEv(std::thread* self)
{
    __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
        self, &fuzz::threads.back(), nullptr);
    fuzz::threads.pop_back();
    __real__ZNSt6thread6detachEv(self);
}
}
