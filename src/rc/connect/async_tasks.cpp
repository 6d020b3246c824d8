// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A queue of tasks and a descriptor that wakes UCX's async thread.
#include "rc/connect/async_tasks.hpp"

#include "abi/host.hpp"
#include "log/log.hpp"
#include "verbs/error.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace gdr::rc {

AsyncTasks::AsyncTasks() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    if (fd_ < 0) {
        throw verbs::Error("eventfd for the handshake", errno);
    }
    if (abi::async_add_fd(fd_, on_readable, this) != UCS_OK) {
        close(fd_);
        throw std::runtime_error("UCX's asynchronous thread does not take the handshake's work");
    }
}

AsyncTasks::~AsyncTasks()
{
    detach();
    close(fd_);
}

void AsyncTasks::detach()
{
    if (std::exchange(attached_, false)) {
        abi::async_remove_fd(fd_);
    }
}

void AsyncTasks::post(Task task)
{
    {
        std::lock_guard guard(lock_);
        tasks_.push_back(std::move(task));
        if (tasks_.size() > 1) {
            return; // woken already
        }
    }
    uint64_t one = 1;
    (void)!write(fd_, &one, sizeof(one));
}

void AsyncTasks::run()
{
    std::vector<Task> tasks;
    {
        std::lock_guard guard(lock_);
        tasks.swap(tasks_);
    }
    for (const Task& task : tasks) {
        attempt(task);
    }
}

void AsyncTasks::attempt(const Task& step)
{
    try {
        step();
    } catch (const std::exception& error) {
        gdr_log(error,
                "a step of connecting fails, and is tried again when its time comes or the peer "
                "asks: %s",
                error.what());
    }
}

void AsyncTasks::on_readable(int fd, unsigned char, void* self)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof(count)); // before the queue is read
    static_cast<AsyncTasks*>(self)->run();
}

} // namespace gdr::rc
