// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// From the error state to destruction.
#include "rc/connect/ending.hpp"

#include <utility>

namespace gdr::rc {
namespace {

// Soft-RoCE of Linux 6.1 does not report when a queue pair is done with its SRQ. And a program that
// does not poll never sees the last receive of a queue pair that has its own.
constexpr auto kPatience = std::chrono::seconds(1);

} // namespace

void EndingQueuePairs::end(verbs::QueuePair qp)
{
    ibv_qp* key = qp.get();
    auto deadline = Clock::now() + kPatience;
    ending_.emplace(key, Ending{std::move(qp), deadline});
    deadlines_.emplace_back(deadline, key);
    verbs::to_error(key);
}

void EndingQueuePairs::receives_done(ibv_qp* qp)
{
    if (auto found = ending_.find(qp); found != ending_.end()) {
        reached(found);
    }
}

void EndingQueuePairs::reached(Endings::iterator ending)
{
    verbs::QueuePair qp = std::move(ending->second.qp);
    ending_.erase(ending);
    ++draining_;
    drain_(std::move(qp));
}

void EndingQueuePairs::expire()
{
    for (auto now = Clock::now(); next() <= now; deadlines_.pop_front()) {
        auto [deadline, qp] = deadlines_.front();
        // Another queue pair may have the address of a destroyed one.
        if (auto found = ending_.find(qp);
            found != ending_.end() && found->second.deadline == deadline) {
            reached(found);
        }
    }
}

} // namespace gdr::rc
