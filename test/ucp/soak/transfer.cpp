// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Random transfers.
#include "transfer.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "../support/failure.hpp"
#include "../support/protocols.hpp"
#include "../support/report.hpp"

namespace ucptest {
namespace {

constexpr unsigned kLongestBits = 20; // of a message's size, now and then two more
constexpr uint64_t kLargestTogether = 4 << 20;
constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kMostAtomics = 32;
constexpr uint64_t kMostScattered = 1000;

size_t random_below(Random& random, size_t bound)
{
    return static_cast<size_t>(random() % bound);
}

// As many of each magnitude, and every other one of a few that come again and again: those find
// their memory registered.
uint64_t random_size(Random& random)
{
    if (random_below(random, 2) == 0) {
        static constexpr uint64_t usual[] = {8, 1000, 8192, 65536, 300000};
        return usual[random_below(random, std::size(usual))];
    }
    const unsigned bits = static_cast<unsigned>(
        random_below(random, kLongestBits + (random_below(random, 8) == 0 ? 3 : 1)));
    return 1 + random_below(random, size_t{1} << bits);
}

// Protocols v2 leave an HCA's atomics out where endpoints report a peer's failure, as these do.
bool has_atomics()
{
    static const bool has = !protocols_v2();
    return has;
}

// Small messages only: an active message's rendezvous of UCX 1.13 (protocols v1) from several
// pieces to managed memory ends in an assertion of its own.
bool scattered(const Note& offer, Random& random)
{
    return (offer.kind == Kind::kTag || offer.kind == Kind::kAm) && offer.size <= kMostScattered &&
           random_below(random, 4) == 0;
}

bool has_bytes(const Note& offer, bool initiator)
{
    return initiator == (offer.kind != Kind::kGet);
}

MemoryKind random_memory(const Note& offer, bool initiator, const MemoryKinds& kinds,
                         Random& random)
{
    // A word that atomics work on is on the host or in the GPU's own memory, and so are operands.
    if (offer.kind == Kind::kAtomic) {
        const MemoryKind kind = kinds.any(random, true);
        return !initiator && kind == MemoryKind::kCuda ? kind : MemoryKind::kHost;
    }
    const bool one_sided = offer.kind == Kind::kPut || offer.kind == Kind::kGet;
    for (;;) {
        const MemoryKind kind = kinds.any(random, !has_bytes(offer, initiator) || !initiator);
        // No HCA takes managed memory, and protocols v1 of UCX let the CPU put and get there.
        if (!one_sided || kind != MemoryKind::kManaged) {
            return kind;
        }
    }
}

} // namespace

MemoryKind MemoryKinds::any(Random& random, bool to_be_written) const
{
    const size_t chosen = random_below(random, cuda_ ? 12 : 4);
    switch (chosen) {
    case 0:
        return to_be_written ? MemoryKind::kHost : MemoryKind::kReadOnly;
    case 4:
        return MemoryKind::kPool;
    case 5:
        return MemoryKind::kVmm;
    case 6:
        return MemoryKind::kSegments;
    case 7:
        return managed_ ? MemoryKind::kManaged : MemoryKind::kCuda;
    default:
        return chosen < 4 ? MemoryKind::kHost : MemoryKind::kCuda;
    }
}

Note random_offer(Random& random)
{
    Note offer{};
    offer.type = Note::Type::kOffer;
    offer.kind = static_cast<Kind>(random_below(random, has_atomics() ? kKinds : kKinds - 1));
    offer.id = random();
    if (offer.kind == Kind::kAtomic) {
        offer.size = kWord;
        offer.count = 1 + random_below(random, kMostAtomics);
    } else {
        offer.size = random_size(random);
        offer.count =
            std::clamp<uint64_t>(kLargestTogether / offer.size, 1, 1 + random_below(random, 4));
    }
    return offer;
}

Transfer::Transfer(Worker& worker, ucp_ep_h ep, const Note& offer, bool initiator,
                   const MemoryKinds& kinds, Random& random)
    : worker_(worker), ep_(ep), offer_(offer), initiator_(initiator),
      deadline_(Clock::now() + std::chrono::seconds(2 * deadline_s())),
      messages_(random_memory(offer, initiator, kinds, random), offer.size,
                offer.kind == Kind::kAtomic ? 1 : offer.count, scattered(offer, random)),
      operations_(worker)
{
    messages_.fill(has_bytes(offer, initiator) ? offer.id : ~offer.id);
}

size_t Transfer::offset(size_t index)
{
    return static_cast<size_t>(static_cast<char*>(messages_.address(index)) -
                               static_cast<char*>(messages_.memory().address()));
}

Bytes Transfer::prepare()
{
    switch (offer_.kind) {
    case Kind::kTag:
        for (size_t index = 0; index < messages_.count(); ++index) {
            operations_.tag_receive(messages_.view(index), offer_.id + index, offer_.size);
        }
        break;
    case Kind::kStream:
        for (size_t index = 0; index < messages_.count(); ++index) {
            operations_.stream_receive(ep_, messages_.view(index), offer_.size);
        }
        break;
    case Kind::kAm:
        break;
    case Kind::kPut:
    case Kind::kGet:
    case Kind::kAtomic:
        exposed_ = std::make_unique<ExposedMemory>(worker_, messages_.memory());
        return exposed_->packed();
    }
    return {};
}

ucs_status_t Transfer::arrived(size_t index, void* data, size_t length, bool rendezvous)
{
    if (index >= messages_.count() || length != offer_.size) {
        wrong_ = format("active message %zu has %zu bytes", index, length);
        return UCS_OK;
    }
    ++received_;
    if (rendezvous) {
        return operations_.am_receive(data, messages_.view(index), length) ? UCS_INPROGRESS
                                                                           : UCS_OK;
    }
    messages_.store(index, data);
    return UCS_OK;
}

void Transfer::start(const Bytes& remote)
{
    started_ = true;
    if (!remote.empty()) {
        remote_ = std::make_unique<RemoteMemory>(ep_, remote);
    }
    if (offer_.kind == Kind::kAtomic) {
        return start_atomics();
    }
    for (size_t index = 0; index < messages_.count(); ++index) {
        const View view = messages_.view(index);
        switch (offer_.kind) {
        case Kind::kTag:
            operations_.tag_send(ep_, view, offer_.id + index, index % 2 == 1);
            break;
        case Kind::kAm:
            headers_[index] = {offer_.id, index};
            operations_.am_send(ep_, kDataId, &headers_[index], sizeof(headers_[index]), view,
                                UCP_AM_SEND_FLAG_REPLY);
            break;
        case Kind::kStream:
            operations_.stream_send(ep_, view);
            break;
        case Kind::kPut:
            operations_.put(ep_, view, remote_->address(offset(index)), remote_->rkey());
            break;
        case Kind::kGet:
            operations_.get(ep_, view, remote_->address(offset(index)), remote_->rkey());
            break;
        case Kind::kAtomic:
            break;
        }
    }
    if (offer_.kind == Kind::kPut || offer_.kind == Kind::kGet) {
        operations_.flush(ep_);
    }
}

// Adds, of which every other one fetches.
void Transfer::start_atomics()
{
    fetched_.assign(offer_.count, 0);
    for (size_t index = 0; index < offer_.count; ++index) {
        operations_.atomic(ep_, UCP_ATOMIC_OP_ADD, &one_,
                           index % 2 == 0 ? &fetched_[index] : nullptr, remote_->address(offset(0)),
                           remote_->rkey());
    }
    operations_.flush(ep_);
}

bool Transfer::complete() const
{
    if (operations_.outstanding() > 0) {
        return false;
    }
    if (initiator_) {
        return started_;
    }
    return done_ && (offer_.kind != Kind::kAm || received_ == messages_.count());
}

std::optional<std::string> Transfer::check()
{
    if (!wrong_.empty()) {
        return wrong_;
    }
    if (offer_.kind == Kind::kAtomic) {
        return check_word();
    }
    return messages_.difference(offer_.id);
}

// The word begins as what the responder's guard pattern says, whose value both know.
std::optional<std::string> Transfer::check_word()
{
    const std::vector<uint8_t> start = pattern(~offer_.id, 0, kWord);
    uint64_t first;
    std::memcpy(&first, start.data(), kWord);
    if (!initiator_) {
        uint64_t word;
        messages_.memory().load(&word, offset(0), kWord);
        if (word != first + offer_.count) {
            return format("the word grew by %lld, not by %llu",
                          static_cast<long long>(word - first),
                          static_cast<unsigned long long>(offer_.count));
        }
        return std::nullopt;
    }
    std::vector<uint64_t> seen;
    for (size_t index = 0; index < fetched_.size(); index += 2) {
        seen.push_back(fetched_[index] - first);
    }
    std::sort(seen.begin(), seen.end());
    if (std::adjacent_find(seen.begin(), seen.end()) != seen.end() || seen.back() >= offer_.count) {
        return "a value was fetched that the word did not have, or twice";
    }
    return std::nullopt;
}

uint64_t Transfer::bytes() const
{
    return offer_.size * offer_.count;
}

const char* Transfer::progress() const
{
    if (initiator_) {
        return started_ ? "begun" : "the other side is not ready";
    }
    return done_ ? "the initiator is done" : "the initiator is not done";
}

std::string Transfer::text() const
{
    return format("%s of %llu x %llu bytes, %s memory, id %llx, %s, %s, %zu operations outstanding",
                  name(offer_.kind), static_cast<unsigned long long>(offer_.count),
                  static_cast<unsigned long long>(offer_.size), name(messages_.kind()),
                  static_cast<unsigned long long>(offer_.id),
                  initiator_ ? "initiator" : "responder", progress(), operations_.outstanding());
}

} // namespace ucptest
