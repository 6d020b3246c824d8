// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/correspondence.hpp"

#include "sync/ucx/log.hpp"
#include "sync/ucx/refusal.hpp"

#include <algorithm>
#include <numeric>

namespace gdr::sync {
namespace {

constexpr const char* kFunction = "ugdr_transfer_test_match";

BlobReader reader_of(const std::vector<uint8_t>& letter)
{
    return {kFunction, letter.data(), letter.size(), BlobKind::transfer};
}

} // namespace

Correspondence::Correspondence(Engine& engine, Handover<Step>& inbox, Peer& peer,
                               std::function<void(Courier&)> leave)
    : courier(engine, inbox, peer), engine_(engine), mailbox_(*peer.mailbox),
      leave_(std::move(leave)), numbers_(Mailbox::kStarted)
{
    std::iota(numbers_.rbegin(), numbers_.rend(), 0u);
}

uint32_t Correspondence::take_number()
{
    if (numbers_.empty()) {
        throw Refusal(UCS_ERR_NO_RESOURCE, "ugdr_transfer_create: a peer can have " +
                                               std::to_string(Mailbox::kStarted) +
                                               " transfers that send");
    }
    const uint32_t number = numbers_.back();
    numbers_.pop_back();
    return number;
}

void Correspondence::offer(Prepared& transfer)
{
    BlobWriter writer(BlobKind::transfer);
    writer.add(transfer.plan);
    transfer.describe(writer);
    Letter letter = writer.finished();
    if (letter.size() > sizeof(Mailbox::Slot::bytes)) {
        throw Refusal(UCS_ERR_NO_RESOURCE, "ugdr_transfer_create: the keys of the memory have " +
                                               std::to_string(letter.size()) +
                                               " bytes, which are too many");
    }
    letters_.push_back(std::move(letter));
    unmatched_.push_back(&transfer);
    go_on();
}

void Correspondence::go_on()
{
    read();
    send();
    for (auto ours = unmatched_.begin(); ours != unmatched_.end();) {
        Prepared& transfer = **ours;
        const auto theirs = std::ranges::find_if(offers_, [&](const Offer& offer) {
            return offer.plan.tag == transfer.plan.tag && offer.plan.side != transfer.plan.side;
        });
        if (theirs == offers_.end()) {
            ++ours;
            continue;
        }
        ours = unmatched_.erase(ours);
        pair(transfer, theirs->letter);
        offers_.erase(theirs);
    }
}

// A transfer that cannot be paired has its own status.
void Correspondence::pair(Prepared& transfer, const Letter& letter)
{
    try {
        BlobReader reader = reader_of(letter);
        const auto plan = reader.take<Plan>();
        transfer.match(plan, reader);
    } catch (const std::exception& error) {
        transfer.fail(UCS_ERR_INVALID_PARAM);
        log_once(engine_.ucx(), UCS_LOG_LEVEL_ERROR, error.what());
    }
}

void Correspondence::read()
{
    const uint64_t before = read_;
    for (;; ++read_) {
        const Mailbox::Slot& slot = mailbox_.in[read_ % Mailbox::kSlots];
        if (slot.number.load(std::memory_order_acquire) != read_ + 1) {
            break;
        }
        const size_t length = std::min<size_t>(slot.length, slot.bytes.size());
        Letter letter(slot.bytes.begin(), slot.bytes.begin() + static_cast<ptrdiff_t>(length));
        try {
            const auto plan = reader_of(letter).take<Plan>();
            offers_.push_back({plan, std::move(letter)});
        } catch (const Refusal& refusal) {
            log_once(engine_.ucx(), UCS_LOG_LEVEL_ERROR, refusal.what());
        }
    }
    if (read_ != before) {
        engine_.call([this] { courier.tell_of_letters(read_); });
    }
}

void Correspondence::send()
{
    while (!letters_.empty() &&
           sent_ - mailbox_.taken.load(std::memory_order_acquire) < Mailbox::kSlots) {
        const Letter& letter = letters_.front();
        std::ranges::copy(letter, mailbox_.out[sent_ % Mailbox::kSlots].bytes.begin());
        ++sent_;
        engine_.call([&] { courier.send_letter(sent_, letter.size()); });
        letters_.pop_front();
    }
}

} // namespace gdr::sync
