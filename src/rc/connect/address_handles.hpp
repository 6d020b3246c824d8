// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Address handles of an interface's peers. Creating one asks the kernel, which on RoCE resolves the
// neighbour and may take a second to find none. So threads create the handles, and end when nothing
// is left to do. An address that does not resolve is retried only after a while.
#pragma once

#include "rc/connect/async_tasks.hpp"
#include "verbs/queue_pair.hpp"

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <vector>

namespace gdr::rc {

// Used only by UCX's async thread.
class AddressHandles {
  public:
    static constexpr size_t kMost = 1024; // the least recently used is evicted

    AddressHandles(ibv_pd* pd, const verbs::Path& path, AsyncTasks& tasks)
        : pd_(pd), path_(path), tasks_(tasks)
    {
    }
    ~AddressHandles() { finish(); }

    // Starts no new resolution and waits for those under way. Their results are posted as tasks.
    void finish();

    // NULL: not created yet. Allocates nothing.
    ibv_ah* find(const verbs::Destination& destination);

    // Calls user with the handle, at once or when it is created; never if it cannot be created or
    // if too many callers wait. A handle remains valid until kMost other addresses have been used.
    using User = std::function<void(ibv_ah*)>;
    void with(const verbs::Destination& destination, User user);

  private:
    using Clock = std::chrono::steady_clock;

    struct ByAddress {
        bool operator()(const verbs::Destination& a, const verbs::Destination& b) const
        {
            int order = std::memcmp(a.gid.raw, b.gid.raw, sizeof(a.gid.raw));
            return order != 0 ? order < 0 : a.lid < b.lid;
        }
    };
    struct Entry {
        verbs::AddressHandle handle;
        bool resolving = false;
        std::vector<User> waiting;
        Clock::time_point next_try{};
        Clock::duration patience{}; // before the retry after the next failure
        std::list<verbs::Destination>::iterator use;
    };
    using Entries = std::map<verbs::Destination, Entry, ByAddress>;

    Entries::iterator add(const verbs::Destination& destination);
    // False: nobody will, as the system starts no thread.
    bool resolve(const verbs::Destination& destination);
    void resolver();
    void resolved(const verbs::Destination& destination, ibv_ah* handle, int error);

    ibv_pd* const pd_;
    const verbs::Path path_;
    AsyncTasks& tasks_;
    Entries entries_;
    std::list<verbs::Destination> uses_; // most recent first

    std::mutex lock_; // for what the resolver threads share
    std::deque<verbs::Destination> unresolved_;
    unsigned resolving_ = 0; // number of threads
    bool closing_ = false;

    std::vector<std::future<void>> resolvers_;
};

} // namespace gdr::rc
