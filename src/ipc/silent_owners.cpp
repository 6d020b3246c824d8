// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Pauses last 1 to 64 s.
#include "ipc/silent_owners.hpp"

#include <algorithm>

namespace gdr::ipc {

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPatience = 3s; // the owner opens at most one file
constexpr std::chrono::milliseconds kPatienceAgain = 100ms;
constexpr std::chrono::seconds kFirstPause = 1s, kLongestPause = 64s;

} // namespace

std::chrono::milliseconds SilentOwners::patience(uint64_t owner, Clock::time_point now)
{
    const std::lock_guard guard(mutex_);
    const auto silence = silences_.find(owner);
    if (silence == silences_.end()) {
        return kPatience;
    }
    return now < silence->second.end ? 0ms : kPatienceAgain;
}

void SilentOwners::answered(uint64_t owner)
{
    const std::lock_guard guard(mutex_);
    silences_.erase(owner);
}

void SilentOwners::did_not_answer(uint64_t owner, Clock::time_point now)
{
    const std::lock_guard guard(mutex_);
    // Forgets owners that nobody asks any more.
    std::erase_if(silences_, [&](const auto& other) {
        return other.first != owner && other.second.end + kLongestPause < now;
    });
    const auto [silence, first] =
        silences_.try_emplace(owner, Silence{kFirstPause, now + kFirstPause});
    if (first || now < silence->second.end) { // reported by another thread that waited too
        return;
    }
    silence->second.pause = std::min(2 * silence->second.pause, kLongestPause);
    silence->second.end = now + silence->second.pause;
}

} // namespace gdr::ipc
