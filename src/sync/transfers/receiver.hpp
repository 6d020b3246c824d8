// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The side that receives: tells the sender that the buffer may be written, and looks at words.
#pragma once

#include "sync/transfers/arrivals.hpp"
#include "sync/transfers/prepared.hpp"

namespace gdr::sync {

class Receiver final : public Prepared {
  public:
    Receiver(Engine& engine, Courier& courier, const Plan& plan, ugdr_mem* buffer,
             std::unique_ptr<Arrivals> arrivals);

    void describe(BlobWriter& letter) const override;
    bool complete(uint64_t iteration) const override;

    const Arrivals& arrivals() const { return *arrivals_; }
    // Whether a partition of the iteration is there, as test().
    ucs_status_t test(unsigned partition, uint64_t iteration) const;

    // ---- the engine's thread

    void take(const Step& step) override;
    void fail(ucs_status_t status) override;
    void give_back() override;

  private:
    bool there(unsigned index, uint64_t iteration) const;
    void set_begun(uint64_t iteration) override;
    void tell_of_beginning() override;
    void tell_of_beginning_here() override { take(step_); }
    void match_with(BlobReader& described) override;
    void retired(bool) override {}

    ugdr_mem* const buffer_;
    const std::unique_ptr<Arrivals> arrivals_;
    uint64_t started_ = 0; // the offset of the sender's word in its mailbox
    Step step_;
    std::atomic<uint64_t> complete_before_{0}; // the failure
};

} // namespace gdr::sync
