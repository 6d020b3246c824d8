// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/event_descriptor.hpp"

#include "verbs/completion_queue.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace gdr::rc {
namespace {

verbs::CompletionChannel make_channel(ibv_context* context)
{
    verbs::CompletionChannel channel(ibv_create_comp_channel(context));
    if (!channel) {
        throw verbs::Error("ibv_create_comp_channel", errno);
    }
    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    return channel;
}

bool add_to_epoll(int epoll_fd, int fd)
{
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

EventDescriptor::EventDescriptor(ibv_context* context, const Attention& attention)
    : channel_(make_channel(context)), fd_(epoll_create1(EPOLL_CLOEXEC))
{
    if (fd_ < 0) {
        throw verbs::Error("making an interface's event descriptors", errno);
    }
    if (!add_to_epoll(fd_, channel_->fd) || !add_to_epoll(fd_, attention.fd())) {
        const int error = errno;
        close(fd_);
        throw verbs::Error("epoll_ctl for an interface's events", error);
    }
}

EventDescriptor::~EventDescriptor()
{
    close(fd_);
}

unsigned EventDescriptor::take(ibv_cq* cq)
{
    return verbs::take_events(channel_.get(), cq);
}

} // namespace gdr::rc
