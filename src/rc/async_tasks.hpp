// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Work for UCX's asynchronous thread, in order.
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

    // No task is left to the asynchronous thread from here on; run() runs them.
    void detach();

    // What has been posted.
    void run();

  private:
    static void on_readable(int fd, unsigned char events, void* self);

    int fd_; // eventfd
    bool attached_ = true;
    std::mutex lock_; // of what follows, never held while a task runs
    std::vector<Task> tasks_;
};

} // namespace gdr::rc
