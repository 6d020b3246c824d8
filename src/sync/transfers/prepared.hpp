// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One side of a prepared transfer: what both sides have. Iterations are numbered from 1 on. One is
// asked for, it begins when the one before is complete, and it is complete.
#pragma once

#include "sync/network/blob.hpp"
#include "sync/transfers/courier.hpp"
#include "sync/transfers/step.hpp"
#include "sync/ucx-gdr/ugdr.h"

#include <atomic>

namespace gdr::sync {

// What a side tells the other of a transfer.
struct Plan {
    uint64_t tag;
    uint64_t length;
    uint32_t partitions; // equal parts
    uint32_t side;       // ugdr_transfer_side_t

    uint64_t part() const { return length / partitions; }
};

class Prepared : public Outbox {
  public:
    Prepared(Engine& engine, Courier& courier, const Plan& plan)
        : plan(plan), engine_(engine), courier_(courier)
    {
    }
    virtual ~Prepared() = default;

    const Plan plan;

    Courier& courier() const { return courier_; }
    Engine& engine() const { return engine_; }
    Network& network() const { return courier_.peer().network(); }

    // ---- the application's threads, one at a time

    // What the other side needs, behind the plan.
    virtual void describe(BlobWriter& letter) const = 0;
    // The other side's plan, and what it has described. Throws std::exception.
    void match(const Plan& other, BlobReader& described);

    // ---- any thread

    bool matched() const { return matched_.load(std::memory_order_acquire); }
    ucs_status_t status() const
    {
        return static_cast<ucs_status_t>(status_.load(std::memory_order_acquire));
    }

    // The iteration that was asked for last; 0: none was.
    uint64_t asked() const { return asked_.load(std::memory_order_acquire); }
    uint64_t ask() { return asked_.fetch_add(1, std::memory_order_acq_rel) + 1; }
    void take_back() { asked_.fetch_sub(1, std::memory_order_acq_rel); }
    // Whether it has begun.
    bool begun(uint64_t iteration) const
    {
        return begun_.load(std::memory_order_acquire) >= iteration;
    }
    virtual bool complete(uint64_t iteration) const = 0;

    // Asks for one and begins it. Throws Refusal.
    ucs_status_t start();

    // UCS_OK: complete; UCS_INPROGRESS; or why it will not be.
    ucs_status_t test(uint64_t iteration) const;
    // Whether it cannot be destroyed.
    bool busy() const
    {
        return test(asked()) == UCS_INPROGRESS || steps.load(std::memory_order_acquire) > 0;
    }
    // Steps that run once and are not over.
    std::atomic<unsigned> steps{0};
    // Whether the peer has to do something, or something has not arrived there.
    bool waits() const { return status() == UCS_OK && (!matched() || !complete(asked())); }

    // ---- the engine's thread

    // Begins the iteration, if the one before is complete.
    bool begin(uint64_t iteration);
    // A step of the application's thread.
    virtual void take(const Step& step) = 0;
    // Ends what is under way, and what comes later.
    virtual void fail(ucs_status_t status);

    // Gives back what it has of the network. The engine's thread does not have it any more.
    virtual void give_back() = 0;

  protected:
    virtual void set_begun(uint64_t iteration)
    {
        begun_.store(iteration, std::memory_order_release);
    }
    // In the application's thread and in the engine's, after that.
    virtual void tell_of_beginning() {}
    virtual void tell_of_beginning_here() {}
    virtual void match_with(BlobReader& described) = 0;

    Engine& engine_;
    Courier& courier_;
    Plan other_{};
    std::atomic<uint64_t> begun_{0};

  private:
    std::atomic<bool> matched_{false};
    std::atomic<int> status_{UCS_OK};
    std::atomic<uint64_t> asked_{0};
};

} // namespace gdr::sync
