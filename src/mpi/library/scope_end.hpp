// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What ends with a scope also where an error handler of the application leaves it by longjmp, which
// runs no destructors. But before it leaves a frame glibc's longjmp calls what is registered there
// for the end of the thread, by pthread_cleanup_push as it is without exceptions: by the functions
// that pthread.h has declared for it once, and does no longer.
#pragma once

#include <utility>

#include <pthread.h>

extern "C" {
void _pthread_cleanup_push(struct _pthread_cleanup_buffer* buffer, void (*end)(void*),
                           void* argument);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer* buffer, int execute);
}

namespace gdr::mpi {

// To be destroyed in the reverse order of making; a variable of a function, as the frame it is in
// is what tells that it was left.
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
    // As a thread ends both glibc and the destructor call it.
    static void once(void* of)
    {
        auto& scope = *static_cast<ScopeEnd*>(of);
        if (auto* const end = std::exchange(scope.end_, nullptr))
            end(scope.argument_);
    }

    void (*end_)(void*);
    void* argument_;
    _pthread_cleanup_buffer buffer_;
};

} // namespace gdr::mpi
