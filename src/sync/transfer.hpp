// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A prepared transfer as the application has it: with what was attached to conditions.
#pragma once

#include "sync/context.hpp"

#include <memory>
#include <mutex>
#include <vector>

struct ugdr_transfer {
    ugdr_transfer(ugdr_context* of, gdr::sync::Prepared* made, unsigned arrivals)
        : context(of), prepared(made), calls(arrivals)
    {
    }
    ugdr_transfer(const ugdr_transfer&) = delete;
    ugdr_transfer& operator=(const ugdr_transfer&) = delete;
    ~ugdr_transfer();

    ugdr_context* const context;
    gdr::sync::Prepared* const prepared;
    const unsigned calls; // of kernels, that make one partition ready

    // nullptr: the other side.
    gdr::sync::Sender* sender() const;
    gdr::sync::Receiver* receiver() const;

    // ---- any thread. Throw Refusal, cuda::Error.

    void start_on(ugdr_condition& condition);
    void ready_on(unsigned first, unsigned count, ugdr_condition& condition);
    void wait_on(CUstream stream);
    ugdr_dev_transfer_t device();

    // Nothing is triggered any more. It is not busy.
    void detach();

  private:
    struct Attached {
        std::unique_ptr<gdr::sync::Step> step;
        gdr::sync::Operation* operation; // held
    };

    gdr::sync::Step step(gdr::sync::Step::Kind kind) const;
    void attach(const gdr::sync::Step& step, ugdr_condition& condition, unsigned index,
                const char* function);

    std::mutex attaching_; // of what follows, and for the order of iterations
    std::unique_ptr<ugdr_condition> kernel_;
    std::vector<Attached> attached_; // to graphs and kernels
    bool starts_repeatedly_ = false;
};
