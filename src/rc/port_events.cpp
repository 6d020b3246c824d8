// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reads the events, and reminds watches of ports that are down.
#include "rc/port_events.hpp"

#include "abi/host.hpp"
#include "log/log.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace gdr::rc {
namespace {

constexpr long kReminderInterval = 100'000'000; // nanoseconds

log::Level level_of(bool matters)
{
    return matters ? log::Level::warn : log::Level::diag;
}

} // namespace

void PortEvents::add(PortWatch* watch)
{
    std::lock_guard registration(registration_);
    if (watches_.empty()) {
        start();
    }
    std::lock_guard guard(lock_);
    watches_.push_back(watch);
}

void PortEvents::remove(PortWatch* watch)
{
    std::lock_guard registration(registration_);
    {
        std::lock_guard guard(lock_);
        std::erase(watches_, watch);
    }
    if (watches_.empty()) {
        stop();
    }
}

void PortEvents::start()
{
    timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer_fd_ < 0) {
        throw verbs::Error("timerfd_create for a port", errno);
    }
    int event_fd = device_.context()->async_fd;
    fcntl(event_fd, F_SETFL, fcntl(event_fd, F_GETFL) | O_NONBLOCK);
    if (abi::async_add_fd(event_fd, on_event, this) != UCS_OK) {
        close(timer_fd_);
        throw std::runtime_error("UCX's asynchronous thread does not take the HCA's events");
    }
    if (abi::async_add_fd(timer_fd_, on_timer, this) != UCS_OK) {
        abi::async_remove_fd(event_fd);
        close(timer_fd_);
        throw std::runtime_error("UCX's asynchronous thread does not take a port's timer");
    }
}

void PortEvents::stop()
{
    abi::async_remove_fd(timer_fd_);
    abi::async_remove_fd(device_.context()->async_fd);
    close(timer_fd_);
}

void PortEvents::on_event(int, unsigned char, void* arg)
{
    auto& self = *static_cast<PortEvents*>(arg);
    ibv_async_event event;
    while (ibv_get_async_event(self.device_.context(), &event) == 0) {
        self.handle(event);
        ibv_ack_async_event(&event);
    }
}

void PortEvents::handle(const ibv_async_event& event)
{
    const char* name = device_.name().c_str();
    int port = event.element.port_num;
    switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
        return log::message(
            level_of(set_down(event.element.port_num, true)), __FILE__, __LINE__,
            "%s:%d went down: transfers over it fail unless it comes back before the retries end "
            "(7.5 s by default: UCX_GDR_RC_TIMEOUT, UCX_GDR_RC_RETRY_COUNT)",
            name, port);
    case IBV_EVENT_PORT_ACTIVE:
        return log::message(level_of(set_down(event.element.port_num, false)), __FILE__, __LINE__,
                            "%s:%d is up again", name, port);
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return last_wqe_reached(event.element.qp);
    case IBV_EVENT_DEVICE_FATAL:
        gdr_log(error,
                "%s has failed (%s): its connections end, and there are no new ones before the "
                "process is started again (dmesg may say why)",
                name, ibv_event_type_str(event.event_type));
        return has_broken(event);
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        return has_broken(event);
    case IBV_EVENT_QP_FATAL:
        return gdr_log(error, "%s: %s: a connection ends (dmesg may say why)", name,
                       ibv_event_type_str(event.event_type));
    default:
        gdr_log(diag, "%s: %s", name, ibv_event_type_str(event.event_type));
    }
}

bool PortEvents::set_down(uint8_t port, bool down)
{
    std::lock_guard guard(lock_);
    unsigned outage = down ? ++outages_ : 0;
    bool any = false, matters = false;
    for (PortWatch* watch : watches_) {
        if (watch->port_ == port) {
            matters = matters || (watch->outage() != 0) != down;
            watch->outage_.store(outage, std::memory_order_relaxed);
            watch->notify();
        }
        any = any || watch->outage() != 0;
    }
    itimerspec spec{};
    if (any) {
        spec.it_value.tv_nsec = spec.it_interval.tv_nsec = kReminderInterval;
    }
    timerfd_settime(timer_fd_, 0, &spec, nullptr);
    return matters;
}

void PortEvents::last_wqe_reached(ibv_qp* qp)
{
    std::lock_guard guard(lock_);
    for (PortWatch* watch : watches_) {
        if (watch->queues_.srq != nullptr) { // else the event, if any, comes too early
            watch->ending_.receives_done(qp);
        }
    }
}

void PortEvents::has_broken(const ibv_async_event& event)
{
    std::lock_guard guard(lock_);
    for (PortWatch* watch : watches_) {
        const bool of_watch =
            event.event_type == IBV_EVENT_DEVICE_FATAL ||
            (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == watch->queues_.cq) ||
            (event.event_type == IBV_EVENT_SRQ_ERR && event.element.srq == watch->queues_.srq);
        if (!of_watch) {
            continue;
        }
        if (event.event_type != IBV_EVENT_DEVICE_FATAL) {
            gdr_log(error,
                    "%s:%d: %s: the connections of this interface end, and it makes no new ones "
                    "(dmesg may say why)",
                    device_.name().c_str(), watch->port_, ibv_event_type_str(event.event_type));
        }
        watch->broken_.store(true, std::memory_order_relaxed);
        watch->notify();
    }
}

void PortEvents::on_timer(int fd, unsigned char, void* arg)
{
    auto& self = *static_cast<PortEvents*>(arg);
    uint64_t expirations;
    (void)!read(fd, &expirations, sizeof(expirations)); // nonblocking: a stale event reads nothing
    std::lock_guard guard(self.lock_);
    for (PortWatch* watch : self.watches_) {
        if (watch->outage() != 0) {
            watch->notify();
        }
    }
}

} // namespace gdr::rc
