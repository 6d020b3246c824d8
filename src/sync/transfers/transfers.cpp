// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/transfers.hpp"

#include "sync/ucx/refusal.hpp"

#include <algorithm>

#include <sched.h>

namespace gdr::sync {
namespace {

constexpr unsigned kMostPartitions = 1u << 16;

[[noreturn]] void refuse(ucs_status_t status, const std::string& cause)
{
    throw Refusal(status, "ugdr_transfer_create: " + cause);
}

void require(const Plan& plan)
{
    if (plan.partitions == 0 || plan.partitions > kMostPartitions) {
        refuse(UCS_ERR_INVALID_PARAM, "partitions: 1 to " + std::to_string(kMostPartitions));
    }
    if (plan.length == 0 || plan.length % plan.partitions != 0) {
        refuse(UCS_ERR_INVALID_PARAM, std::to_string(plan.length) + " bytes are not " +
                                          std::to_string(plan.partitions) + " equal partitions");
    }
}

} // namespace

// ---- the application's threads

Correspondence& Transfers::with(Peer& peer)
{
    if (peer.correspondence == nullptr) {
        const auto made = std::make_shared<Correspondence>(
            engine_, inbox_, peer, [this](Courier& courier) { leave(courier); });
        if (!service_) {
            Served& served = *this;
            service_.emplace(engine_, served);
        }
        engine_.call([&] { couriers_.push_back(&made->courier); });
        peer.correspondence = made;
    }
    return *static_cast<Correspondence*>(peer.correspondence.get());
}

void Transfers::leave(Courier& courier)
{
    engine_.call([&] { std::erase(couriers_, &courier); });
}

Prepared* Transfers::create(Peer& peer, void* buffer, const Plan& plan)
{
    require(plan);
    if (reinterpret_cast<uintptr_t>(buffer) + plan.length < plan.length || buffer == nullptr) {
        refuse(UCS_ERR_INVALID_PARAM, "no buffer, or none of such a length");
    }
    const std::lock_guard guard(lock_);
    if (&peer.network() != &network_) {
        refuse(UCS_ERR_INVALID_PARAM, "the peer is another context's");
    }
    if (peer.status() != UCS_OK || peer.far_mailbox == nullptr) {
        refuse(peer.status() != UCS_OK ? peer.status() : UCS_ERR_NOT_CONNECTED,
               "the peer is not connected");
    }
    Correspondence& correspondence = with(peer);
    ugdr_mem* const mapped = network_.map(buffer, plan.length);
    const bool sends = plan.side == UGDR_TRANSFER_SEND;
    std::unique_ptr<Prepared> made;
    try {
        if (sends) {
            made = std::make_unique<Sender>(engine_, correspondence.courier, plan, mapped,
                                            correspondence.take_number());
        } else {
            const bool gpu = (mapped->id & UGDR_MEM_ID_HOST) == 0;
            made = std::make_unique<Receiver>(
                engine_, correspondence.courier, plan, mapped,
                std::make_unique<Arrivals>(network_, gpu, plan.partitions));
        }
    } catch (...) {
        network_.unmap(mapped);
        throw;
    }
    Prepared* const transfer = made.get();
    all_.emplace(transfer, std::move(made));
    ++peer.transfers;
    engine_.call([&] { correspondence.courier.add(*transfer); });
    try {
        correspondence.offer(*transfer);
    } catch (...) {
        end(*transfer);
        throw;
    }
    return transfer;
}

ucs_status_t Transfers::test_match(Prepared& transfer)
{
    const std::lock_guard guard(lock_);
    Correspondence& correspondence = with(transfer.courier().peer());
    if (transfer.status() == UCS_OK && !(transfer.matched() && correspondence.all_sent())) {
        correspondence.go_on();
    }
    return transfer.status() != UCS_OK                       ? transfer.status()
           : transfer.matched() && correspondence.all_sent() ? UCS_OK
                                                             : UCS_INPROGRESS;
}

void Transfers::destroy(Prepared& transfer)
{
    const std::lock_guard guard(lock_);
    end(transfer);
}

void Transfers::end(Prepared& transfer)
{
    Courier& courier = transfer.courier();
    Peer& peer = courier.peer();
    Correspondence& correspondence = with(peer);
    correspondence.forget(transfer);
    for (bool gone = false; !gone; sched_yield()) {
        engine_.call([&] { gone = courier.remove(transfer); });
    }
    // The other side may still pair one that was not, and write this word.
    if (transfer.plan.side == UGDR_TRANSFER_SEND && transfer.matched()) {
        correspondence.give_number_back(static_cast<Sender&>(transfer).number());
    }
    transfer.give_back();
    --peer.transfers;
    all_.erase(&transfer);
}

bool Transfers::any()
{
    const std::lock_guard guard(lock_);
    return !all_.empty();
}

void Transfers::close()
{
    const std::lock_guard guard(lock_);
    if (service_) {
        service_->end();
    }
    for (const auto& [transfer, owned] : all_) {
        transfer->fail(UCS_ERR_CANCELED);
        transfer->give_back();
    }
}

// ---- the engine's thread

unsigned Transfers::progress()
{
    unsigned events = 0;
    for (Step* step = inbox_.take(); step != nullptr; ++events) {
        Step* const next = step->next; // it may be used again, once it was taken
        step->transfer->take(*step);
        step = next;
    }
    for (Courier* courier : couriers_) {
        events += courier->progress();
    }
    return events;
}

bool Transfers::under_way() const
{
    return std::ranges::any_of(couriers_, [](const Courier* one) { return one->under_way(); });
}

bool Transfers::armed() const
{
    return std::ranges::any_of(couriers_, [](const Courier* one) { return one->waits(); });
}

} // namespace gdr::sync
