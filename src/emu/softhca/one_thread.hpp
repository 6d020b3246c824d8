// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a program has promised to use from one thread at a time: objects of a thread domain,
// completion queues made for a single thread. Others' libraries take no locks there; this one ends
// a program that does not keep the promise, where it is seen.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace softhca {

class OneThread {
  public:
    void promise() { promised_ = true; } // before it is used
    bool is_promised() const { return promised_; }

    // From here to leave() no other thread may enter.
    void enter(const char* object)
    {
        if (promised_ && inside_.exchange(true, std::memory_order_acquire)) {
            std::fprintf(stderr,
                         "softhca: two threads use a %s at once that is for one at a time: "
                         "see ibv_alloc_td(3), IBV_CREATE_CQ_ATTR_SINGLE_THREADED\n",
                         object);
            std::abort();
        }
    }
    void leave()
    {
        if (promised_) {
            inside_.store(false, std::memory_order_release);
        }
    }

  private:
    bool promised_ = false;
    std::atomic<bool> inside_{false};
};

class OneThreadGuard {
  public:
    OneThreadGuard(OneThread& object, const char* name) : object_(object) { object.enter(name); }
    ~OneThreadGuard() { object_.leave(); }
    OneThreadGuard(const OneThreadGuard&) = delete;
    OneThreadGuard& operator=(const OneThreadGuard&) = delete;

  private:
    OneThread& object_;
};

} // namespace softhca
