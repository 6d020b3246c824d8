// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Runs tasks in UCX's async thread, in order.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace gdr::rc {

class AsyncTasks {
  public:
    using Task = std::function<void()>;

    // Throws std::exception.
    AsyncTasks();
    ~AsyncTasks();
    AsyncTasks(const AsyncTasks&) = delete;
    AsyncTasks& operator=(const AsyncTasks&) = delete;

    // From any thread.
    void post(Task task);

    // From now on the async thread runs no more tasks; run() does.
    void detach();

    // Runs the tasks that have been posted.
    void run();

    // Runs a step, also one that was not posted. Logs what it throws, which must not get into UCX's
    // thread.
    static void attempt(const Task& step);

  private:
    static void on_readable(int fd, unsigned char events, void* self);

    int fd_; // eventfd
    bool attached_ = true;
    std::mutex lock_; // for the queue; never held while a task runs
    std::vector<Task> tasks_;
};

} // namespace gdr::rc
