// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/receiver.hpp"

namespace gdr::sync {

Receiver::Receiver(Engine& engine, Courier& courier, const Plan& plan, ugdr_mem* buffer,
                   std::unique_ptr<Arrivals> arrivals)
    : Prepared(engine, courier, plan), buffer_(buffer), arrivals_(std::move(arrivals))
{
    step_.transfer = this;
    reserve(1);
}

void Receiver::describe(BlobWriter& letter) const
{
    letter.add_counted(buffer_->blob.data(), buffer_->blob.size());
    arrivals_->describe(letter);
}

void Receiver::match_with(BlobReader& described)
{
    const auto number = described.take<uint32_t>();
    if (number >= Mailbox::kStarted) {
        described.refuse(UCS_ERR_INVALID_PARAM, "the letter contradicts itself");
    }
    started_ = offsetof(Mailbox, started) + number * sizeof(uint64_t);
}

// The word before the status: a failure writes them the other way round.
bool Receiver::there(unsigned index, uint64_t iteration) const
{
    const uint64_t word = arrivals_->of(index);
    return status() == UCS_OK ? word >= iteration
                              : complete_before_.load(std::memory_order_relaxed) >= iteration;
}

bool Receiver::complete(uint64_t iteration) const
{
    return there(arrivals_->all(), iteration);
}

ucs_status_t Receiver::test(unsigned partition, uint64_t iteration) const
{
    return there(partition, iteration) ? UCS_OK : status() != UCS_OK ? status() : UCS_INPROGRESS;
}

void Receiver::set_begun(uint64_t iteration)
{
    arrivals_->set_iteration(iteration);
    Prepared::set_begun(iteration);
}

void Receiver::tell_of_beginning()
{
    courier_.submit(step_);
}

void Receiver::take(const Step&)
{
    if (status() == UCS_OK) {
        add_word(courier_.far_mailbox(), started_, begun_.load(std::memory_order_acquire));
        courier_.send(*this);
    }
}

void Receiver::fail(ucs_status_t status)
{
    if (this->status() != UCS_OK) {
        return;
    }
    complete_before_.store(arrivals_->of(arrivals_->all()), std::memory_order_relaxed);
    Prepared::fail(status);
    arrivals_->end(status);
}

void Receiver::give_back()
{
    arrivals_->give_back(network());
    network().unmap(buffer_);
}

} // namespace gdr::sync
