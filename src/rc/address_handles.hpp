// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Address handles of an interface's peers. Making one asks the kernel, which on RoCE looks for the
// neighbour and may take a second to find none: that is done in threads that end when there is
// nothing to do. An address that does not resolve is not tried again for a while.
#pragma once

#include "rc/async_tasks.hpp"
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

// For UCX's asynchronous thread alone.
class AddressHandles {
  public:
    static constexpr size_t kMost = 1024; // the least recently used goes

    AddressHandles(ibv_pd* pd, const verbs::Path& path, AsyncTasks& tasks)
        : pd_(pd), path_(path), tasks_(tasks)
    {
    }
    ~AddressHandles() { finish(); }

    // Makes no more; waits for what the kernel is asked. The results are tasks.
    void finish();

    // NULL: not made yet. Allocates nothing.
    ibv_ah* find(const verbs::Destination& destination);

    // Runs user with the handle, at once or when it is made; never, if it cannot be made, or too
    // many wait. Handles remain valid while fewer than kMost others are used.
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
        Clock::duration patience{}; // after the next failure
        std::list<verbs::Destination>::iterator use;
    };
    using Entries = std::map<verbs::Destination, Entry, ByAddress>;

    Entries::iterator add(const verbs::Destination& destination);
    void resolve(const verbs::Destination& destination);
    void resolver();
    void resolved(const verbs::Destination& destination, ibv_ah* handle, int error);

    ibv_pd* const pd_;
    const verbs::Path path_;
    AsyncTasks& tasks_;
    Entries entries_;
    std::list<verbs::Destination> uses_; // latest first

    std::mutex lock_; // of what the resolvers share
    std::deque<verbs::Destination> unresolved_;
    unsigned resolving_ = 0; // threads
    bool closing_ = false;

    std::vector<std::future<void>> resolvers_;
};

} // namespace gdr::rc
