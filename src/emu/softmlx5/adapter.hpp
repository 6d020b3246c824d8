// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The adapter: one thread of the process, which looks for what programs have written into their
// queues, as nothing tells it of a doorbell, and hands it to softhca. It sleeps between two looks:
// where processors are few a thread that polls keeps those from running that it waits for.
#pragma once

#include "emu/softmlx5/context.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace softmlx5 {

class Adapter {
  public:
    // This process's; a forked child has one of its own, which knows nothing of its parent's.
    static Adapter& instance();

    // While it lives nobody looks at queues: for commands, which change what there is.
    class Guard {
      public:
        Guard();
        ~Guard();
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;
        Adapter& operator*() const { return adapter_; }
        Adapter* operator->() const { return &adapter_; }

      private:
        Adapter& adapter_;
    };

    void add(Context& context);
    void remove(Context& context);
    void add(Qp& qp) { by_number_[qp.hca().qp_num] = &qp; }
    void remove(Qp& qp) { by_number_.erase(qp.hca().qp_num); }
    Qp* find_qp(std::uint32_t number)
    {
        const auto found = by_number_.find(number);
        return found == by_number_.end() ? nullptr : found->second;
    }

    // Looks at everything once; false if there was nothing to do.
    bool look();
    // Before an object changes or goes: what was posted is executed as far as that can be, and all
    // completions are where the program finds them.
    void settle();

  private:
    Adapter() = default;
    void run();

    std::mutex mutex_;
    std::atomic<unsigned> commands_{0}; // that wait for the lock, or have it
    bool started_ = false;
    std::vector<Context*> contexts_;
    std::unordered_map<std::uint32_t, Qp*> by_number_;
};

} // namespace softmlx5
