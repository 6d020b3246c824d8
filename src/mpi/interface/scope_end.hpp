// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A function that runs at the end of a scope even if an error handler of the application leaves the
// scope by longjmp, which runs no destructors. glibc's longjmp calls the thread's cleanup handlers
// of a frame before it leaves the frame. These are registered by the functions behind
// pthread_cleanup_push without exceptions, which pthread.h no longer declares.
#pragma once

#include <utility>

#include <pthread.h>

extern "C" {
void _pthread_cleanup_push(struct _pthread_cleanup_buffer* buffer, void (*end)(void*),
                           void* argument);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer* buffer, int execute);
}

namespace gdr::mpi {

// Must be a local variable, since its frame tells whether the scope was left. Destroy in reverse
// order.
class ScopeEnd {
  public:
    ScopeEnd(void (*end)(void*), void* argument) : end_(end), argument_(argument)
    {
        _pthread_cleanup_push(&buffer_, once, this);
    }
    ScopeEnd(const ScopeEnd&) = delete;
    ScopeEnd& operator=(const ScopeEnd&) = delete;
    ~ScopeEnd() { _pthread_cleanup_pop(&buffer_, 1); }

  private:
    // At the end of a thread both glibc and the destructor call it.
    static void once(void* of)
    {
        auto& scope = *static_cast<ScopeEnd*>(of);
        if (auto* const end = std::exchange(scope.end_, nullptr)) {
            end(scope.argument_);
        }
    }

    void (*end_)(void*);
    void* argument_;
    _pthread_cleanup_buffer buffer_;
};

} // namespace gdr::mpi
