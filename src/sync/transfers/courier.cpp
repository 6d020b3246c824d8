// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/courier.hpp"

#include "sync/transfers/sender.hpp"

#include <algorithm>

namespace gdr::sync {
namespace {

constexpr unsigned kLooks = 1024; // between two looks at the clock
constexpr auto kSilence = std::chrono::seconds(1);

} // namespace

Courier::Courier(Engine& engine, Handover<Step>& inbox, Peer& peer)
    : engine_(engine), inbox_(inbox), peer_(peer), lane_(peer.transfers_lane()),
      far_mailbox_(peer.network().remote_memories.use(number_of(peer.far_mailbox->id))),
      mailbox_(peer.network().memories.use(number_of(peer.mailbox_memory->id)))
{
}

Courier::~Courier()
{
    peer_.network().remote_memories.give_back(number_of(peer_.far_mailbox->id));
    peer_.network().memories.give_back(number_of(peer_.mailbox_memory->id));
}

void Courier::add(Prepared& transfer)
{
    transfers_.push_back(&transfer);
    waiting_.reserve(transfers_.size()); // later calls do not allocate
    busy_.reserve(transfers_.size() + 1);
    if (status_ != UCS_OK) {
        transfer.fail(status_);
    }
}

bool Courier::remove(Prepared& transfer)
{
    if (status_ == UCS_OK && transfer.unretired() > 0) {
        return false;
    }
    std::erase(transfers_, &transfer);
    std::erase(waiting_, &transfer);
    return true;
}

void Courier::send(Outbox& outbox)
{
    if (!outbox.listed) {
        outbox.listed = true;
        busy_.push_back(&outbox);
    }
}

void Courier::send_letter(uint64_t number, uint64_t length)
{
    const size_t slot = (number - 1) % Mailbox::kSlots * sizeof(Mailbox::Slot);
    Transfer letter{};
    letter.kind = Transfer::Kind::put;
    letter.length = static_cast<uint32_t>(length);
    letter.local = mailbox_;
    letter.offset = offsetof(Mailbox, out) + slot;
    letter.remote = far_mailbox_;
    letter.remote_offset = offsetof(Mailbox, in) + slot;
    Outbox::add(letter);
    add_word(*far_mailbox_, letter.remote_offset + offsetof(Mailbox::Slot, length), length);
    add_word(*far_mailbox_, letter.remote_offset + offsetof(Mailbox::Slot, number), number);
    send(*this);
}

void Courier::tell_of_letters(uint64_t taken)
{
    taken_ = taken;
    add_word(*far_mailbox_, offsetof(Mailbox, taken), taken_);
    send(*this);
}

bool Courier::waits() const
{
    return status_ == UCS_OK && std::any_of(transfers_.begin(), transfers_.end(),
                                            [](const Prepared* one) { return one->waits(); });
}

unsigned Courier::progress()
{
    for (size_t i = 0; i < waiting_.size();) {
        if (!waiting_[i]->go_on()) {
            ++i;
        } else {
            waiting_[i] = waiting_.back();
            waiting_.pop_back();
        }
    }
    unsigned events = busy_.empty() ? 0 : post();
    if (under_way_ > 0) {
        events += lane_.poll(*this);
    } else if (++looks_ % kLooks == 0 && waits()) {
        look_after();
    }
    return events;
}

unsigned Courier::post()
{
    unsigned count = 0;
    while (!busy_.empty()) {
        Outbox& outbox = *busy_.front();
        while (!outbox.empty() && lane_.post(outbox.next())) {
            outbox.pop();
            ++under_way_;
            ++count;
        }
        if (!outbox.empty()) {
            break; // no room now
        }
        outbox.listed = false;
        busy_.erase(busy_.begin());
    }
    lane_.submit();
    return count;
}

// What an HCA does not acknowledge fails after its retries, and so does what UCP cannot deliver.
void Courier::look_after()
{
    const auto now = Clock::now();
    if (now - heard_of_ > kSilence) {
        heard_of_ = now;
        tell_of_letters(taken_);
    }
}

void Courier::retired(uint64_t ticket, ucs_status_t status)
{
    --under_way_;
    if (status != UCS_OK) {
        fail(status);
    } else if (status_ == UCS_OK) {
        Outbox::tell(ticket);
    }
}

// A lane that has failed carries nothing any more.
void Courier::fail(ucs_status_t status)
{
    if (status_ != UCS_OK) {
        return;
    }
    status_ = status;
    for (Outbox* outbox : busy_) {
        outbox->clear();
        outbox->listed = false;
    }
    busy_.clear();
    waiting_.clear();
    for (Prepared* transfer : transfers_) {
        transfer->fail(status);
    }
}

} // namespace gdr::sync
