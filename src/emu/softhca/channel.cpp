// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pipes that carry events, completion channels and asynchronous events. Any process of the fabric
// writes into them, the application polls and reads them.
#include "emu/softhca/channel.hpp"

#include "emu/softhca/cq.hpp"
#include "emu/softhca/ops.hpp"

#include <array>
#include <map>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace softhca {
namespace {

std::mutex objects_mutex;
std::array<Cq*, kMaxCqs> cqs;
std::array<Qp*, kMaxQps> qps;
std::array<Srq*, kMaxSrqs> srqs;

std::mutex pipes_mutex;
std::map<std::uint32_t, int> open_pipes; // of this process: id -> writing end

template <class Table, class Object>
void set_object(Table& table, std::uint32_t index, Object* object)
{
    const std::lock_guard<std::mutex> guard(objects_mutex);
    table[index] = object;
}

// Reads one record; false with errno when there is none.
template <class Record>
bool read_record(int fd, Record& record)
{
    ssize_t size;
    do {
        size = read(fd, &record, sizeof record);
    } while (size < 0 && errno == EINTR);
    if (size >= 0 && size != static_cast<ssize_t>(sizeof record)) {
        errno = EIO;
    }
    return size == static_cast<ssize_t>(sizeof record);
}

// Fills in the object an event is about and counts it as delivered; false if it is no more.
bool name_object(const AsyncNotice& notice, ibv_async_event& event)
{
    const std::lock_guard<std::mutex> guard(objects_mutex);
    Process& self = *Process::current();
    switch (notice.type) {
    case IBV_EVENT_CQ_ERR:
        if (notice.object >= kMaxCqs || cqs[notice.object] == nullptr ||
            self.arena().cq(notice.object).generation != notice.identity) {
            return false;
        }
        event.element.cq = &cqs[notice.object]->base;
        ++cqs[notice.object]->async_delivered;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        if (notice.object >= kMaxSrqs || srqs[notice.object] == nullptr ||
            self.arena().recv_queue(kMaxQps + notice.object).generation != notice.identity) {
            return false;
        }
        event.element.srq = &srqs[notice.object]->base;
        ++srqs[notice.object]->events_delivered;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
        if (notice.object >= kMaxQps || qps[notice.object] == nullptr ||
            qps[notice.object]->base.qp_num != notice.identity) {
            return false;
        }
        event.element.qp = &qps[notice.object]->base;
        ++qps[notice.object]->events_delivered;
        break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        event.element.port_num = static_cast<int>(notice.object);
        break;
    default: // nobody has sent that
        return false;
    }
    event.event_type = static_cast<ibv_event_type>(notice.type);
    return true;
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& condition, std::uint32_t& count,
                 unsigned events)
{
    pthread_mutex_lock(&mutex);
    count += events;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

} // namespace

void Pipe::open()
{
    static std::atomic<std::uint32_t> next_id{1};
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0 || fcntl(fds[1], F_SETFL, O_NONBLOCK) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    read_fd = fds[0];
    write_end = {fds[1], next_id.fetch_add(1)};
    const std::lock_guard<std::mutex> guard(pipes_mutex);
    open_pipes[write_end.id] = write_end.fd;
}

bool Pipe::is_open(PipeRef write_end)
{
    const std::lock_guard<std::mutex> guard(pipes_mutex);
    const auto found = open_pipes.find(write_end.id);
    return found != open_pipes.end() && found->second == write_end.fd;
}

void Pipe::close()
{
    {
        const std::lock_guard<std::mutex> guard(pipes_mutex);
        open_pipes.erase(write_end.id);
    }
    ::close(read_fd);
    ::close(write_end.fd);
}

void raise_event(Process& self, Arena& owner, PipeRef events, ibv_event_type type,
                 std::uint32_t object, std::uint32_t identity)
{
    const AsyncNotice notice{static_cast<std::uint32_t>(type), object, identity};
    self.write_pipe(owner.token, events, &notice, sizeof notice);
}

void raise_device_event(Process& self, Arena& owner, unsigned device, ibv_event_type type)
{
    const SharedGuard guard(owner.contexts_lock, self.token());
    for (const ContextShared& context : owner.contexts) {
        const std::uint32_t port = device - context.device; // the first one is 0
        if (context.events.id != 0 && port < context.ports) {
            raise_event(self, owner, context.events, type,
                        type == IBV_EVENT_DEVICE_FATAL ? 0 : port + 1, 0);
        }
    }
}

void set_cq(std::uint32_t index, Cq* cq)
{
    set_object(cqs, index, cq);
}
void set_qp(std::uint32_t index, Qp* qp)
{
    set_object(qps, index, qp);
}
void set_srq(std::uint32_t index, Srq* srq)
{
    set_object(srqs, index, srq);
}

ibv_comp_channel* create_comp_channel(ibv_context* context)
{
    if (is_stale(context)) {
        errno = EINVAL;
        return nullptr;
    }
    Channel* channel = new (std::nothrow) Channel{};
    if (channel == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    try {
        channel->pipe.open();
    } catch (const std::system_error& error) {
        delete channel;
        errno = error.code().value();
        return nullptr;
    }
    channel->base = {context, channel->pipe.read_fd, 0};
    context_of(context).children.fetch_add(1);
    return &channel->base;
}

int destroy_comp_channel(ibv_comp_channel* base)
{
    Channel& channel = object_of<Channel>(base);
    pthread_mutex_lock(&base->context->mutex);
    const bool busy = base->refcnt != 0;
    pthread_mutex_unlock(&base->context->mutex);
    if (busy) {
        return EBUSY;
    }
    if (!is_stale(base->context)) {
        context_of(base->context).children.fetch_sub(1);
    }
    channel.pipe.close();
    delete &channel;
    return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context)
{
    CqNotice notice;
    while (read_record(channel->fd, notice)) {
        const std::lock_guard<std::mutex> guard(objects_mutex);
        Cq* found = notice.index < kMaxCqs ? cqs[notice.index] : nullptr;
        if (found == nullptr ||
            context_of(channel->context).process->arena().cq(notice.index).generation !=
                notice.generation) {
            continue; // destroyed since
        }
        ++found->events_delivered;
        *cq = &found->base;
        *cq_context = found->base.cq_context;
        return 0;
    }
    return -1;
}

void ack_cq_events(ibv_cq* cq, unsigned events)
{
    acknowledge(cq->mutex, cq->cond, cq->comp_events_completed, events);
}

int get_async_event(ibv_context* context, ibv_async_event* event)
{
    AsyncNotice notice;
    while (read_record(context->async_fd, notice)) {
        if (name_object(notice, *event)) {
            return 0;
        }
    }
    return -1;
}

void ack_async_event(ibv_async_event* event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        acknowledge(event->element.cq->mutex, event->element.cq->cond,
                    event->element.cq->async_events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        acknowledge(event->element.srq->mutex, event->element.srq->cond,
                    event->element.srq->events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_SQ_DRAINED:
        acknowledge(event->element.qp->mutex, event->element.qp->cond,
                    event->element.qp->events_completed, 1);
        break;
    default:
        break;
    }
}

} // namespace softhca
