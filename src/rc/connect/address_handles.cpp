// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates, keeps and forgets address handles.
#include "rc/connect/address_handles.hpp"

#include "log/log.hpp"
#include "verbs/error.hpp"
#include "verbs/gid.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <system_error>
#include <utility>

namespace gdr::rc {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kResolvers = 4;
constexpr size_t kMostWaiting = 4096; // for one address
constexpr auto kFirstPatience = 500ms;
constexpr auto kLongestPatience = 30s;

} // namespace

void AddressHandles::finish()
{
    {
        std::lock_guard guard(lock_);
        closing_ = true;
    }
    resolvers_.clear(); // waits for the threads
}

ibv_ah* AddressHandles::find(const verbs::Destination& destination)
{
    auto found = entries_.find(destination);
    if (found == entries_.end()) {
        return nullptr;
    }
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return found->second.handle.get();
}

void AddressHandles::with(const verbs::Destination& destination, User user)
{
    if (ibv_ah* handle = find(destination); handle != nullptr) {
        return user(handle);
    }
    auto found = entries_.find(destination);
    Entry& entry = found != entries_.end() ? found->second : add(destination)->second;
    if (!entry.resolving) {
        if (Clock::now() < entry.next_try) {
            return;
        }
        if (!resolve(destination)) {
            entry.next_try = Clock::now() + kFirstPatience;
            return;
        }
        entry.resolving = true;
    }
    if (entry.waiting.size() < kMostWaiting) {
        entry.waiting.push_back(std::move(user));
    }
}

AddressHandles::Entries::iterator AddressHandles::add(const verbs::Destination& destination)
{
    if (entries_.size() >= kMost) {
        // An address that is being resolved stays, because its result needs the entry.
        auto last = std::find_if(uses_.rbegin(), uses_.rend(),
                                 [&](const auto& used) { return !entries_.at(used).resolving; });
        if (last != uses_.rend()) {
            entries_.erase(*last);
            uses_.erase(std::next(last).base());
        }
    }
    uses_.push_front(destination);
    auto added = entries_.try_emplace(destination).first;
    added->second.patience = kFirstPatience;
    added->second.use = uses_.begin();
    return added;
}

bool AddressHandles::resolve(const verbs::Destination& destination)
{
    std::erase_if(resolvers_, [](const std::future<void>& resolver) {
        return resolver.wait_for(0s) == std::future_status::ready;
    });
    std::lock_guard guard(lock_);
    unresolved_.push_back(destination);
    if (resolving_ < kResolvers) {
        try {
            resolvers_.push_back(std::async(std::launch::async, [this] { resolver(); }));
            ++resolving_;
        } catch (const std::system_error& error) {
            if (resolving_ == 0) {
                unresolved_.pop_back();
                gdr_log(diag, "GID %s gets no address handle yet, as no thread can be started: %s",
                        verbs::to_string(destination.gid).c_str(), error.what());
                return false;
            }
        }
    }
    return true;
}

void AddressHandles::resolver()
{
    sigset_t all; // this thread takes none of the application's signals
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock guard(lock_);
    while (!unresolved_.empty() && !closing_) {
        verbs::Destination destination = unresolved_.front();
        unresolved_.pop_front();
        guard.unlock();
        ibv_ah_attr vector = verbs::address_vector(path_, destination);
        errno = 0;
        ibv_ah* handle = ibv_create_ah(pd_, &vector);
        int error = errno;
        tasks_.post([this, destination, handle, error] { resolved(destination, handle, error); });
        guard.lock();
    }
    --resolving_;
}

void AddressHandles::resolved(const verbs::Destination& destination, ibv_ah* handle, int error)
{
    Entry& entry = entries_.at(destination);
    entry.handle.reset(handle);
    entry.resolving = false;
    std::vector<User> waiting = std::exchange(entry.waiting, {});
    if (handle == nullptr) {
        gdr_log(diag, "no address handle could be made for GID %s: %s (tried again in %.1f s)",
                verbs::to_string(destination.gid).c_str(), verbs::errno_text(error).c_str(),
                std::chrono::duration<double>(entry.patience).count());
        entry.next_try = Clock::now() + entry.patience;
        entry.patience = std::min<Clock::duration>(entry.patience * 2, kLongestPatience);
        return;
    }
    for (const User& user : waiting) {
        user(handle);
    }
}

} // namespace gdr::rc
