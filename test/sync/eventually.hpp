// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Waiting for what has to happen.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace synctest {

constexpr auto kDeadline = std::chrono::seconds(60);

// Whether it comes true in time.
inline bool eventually(const std::function<bool()>& condition)
{
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

} // namespace synctest
