// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/transfers/sender.hpp"

#include "sync/transfers/step.hpp"
#include "sync/ucx/refusal.hpp"

#include <algorithm>
#include <string>

namespace gdr::sync {
namespace {

constexpr uint64_t kLargest = 1u << 30; // bytes of one put
constexpr uint64_t kWord = sizeof(uint64_t);

} // namespace

Sender::Sender(Engine& engine, Courier& courier, const Plan& plan, ugdr_mem* buffer,
               uint32_t number)
    : Prepared(engine, courier, plan), buffer_(buffer),
      memory_(network().memories.use(number_of(buffer->id))), number_(number),
      started_(courier.peer().mailbox->started[number]), claimed_(plan.partitions),
      steps_(plan.partitions), sent_(plan.partitions)
{
    started_.store(0, std::memory_order_relaxed);
    pending_.reserve(plan.partitions);
    posted_.reserve(plan.partitions);
    for (unsigned i = 0; i < plan.partitions; ++i) {
        steps_[i].transfer = this;
        steps_[i].first = i;
        steps_[i].count = 1;
    }
}

Sender::Far Sender::import(BlobReader& described)
{
    const BlobReader::Piece blob = described.take_counted();
    Far far;
    far.handle = network().import(courier_.peer(), blob.data, blob.length);
    far.memory = network().remote_memories.use(number_of(far.handle->id));
    return far;
}

void Sender::match_with(BlobReader& described)
{
    const size_t words = other_.partitions + (other_.partitions > 1 ? 1 : 0);
    data_ = import(described);
    host_words_ = import(described);
    const bool has_gpu_words = described.take<uint32_t>() != 0;
    if (has_gpu_words) {
        gpu_words_ = import(described);
    }
    if (data_.memory->length != plan.length || host_words_.memory->length != words * kWord ||
        (has_gpu_words && gpu_words_.memory->length != words * kWord)) {
        described.refuse(UCS_ERR_INVALID_PARAM, "the letter contradicts itself");
    }
    for (unsigned i = 0; i < other_.partitions; ++i) {
        left_.push_back(parts_of(i));
    }
    const uint64_t puts = (plan.part() + kLargest - 1) / kLargest;
    reserve(plan.partitions * puts + 2 * words);
}

void Sender::release(Far& far)
{
    if (far.handle != nullptr) {
        network().remote_memories.give_back(number_of(far.handle->id));
        network().release(far.handle);
    }
}

void Sender::give_back()
{
    for (Far* far : {&data_, &host_words_, &gpu_words_}) {
        release(*far);
    }
    network().memories.give_back(number_of(buffer_->id));
    network().unmap(buffer_);
}

// ---- any thread

bool Sender::claim(uint64_t iteration, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        uint64_t last = iteration - 1;
        if (iteration == 0 || !claimed_[first + i].compare_exchange_strong(last, iteration)) {
            unclaim(iteration, first, i);
            return false;
        }
    }
    return true;
}

void Sender::unclaim(uint64_t iteration, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        claimed_[first + i] = iteration - 1;
    }
}

ucs_status_t Sender::ready(unsigned partition)
{
    if (status() != UCS_OK) {
        return status();
    }
    const uint64_t iteration = asked();
    if (iteration == 0 || !begun(iteration)) {
        throw Refusal(UCS_ERR_INVALID_PARAM,
                      "ugdr_transfer_ready: no iteration has begun (ugdr_transfer_start())");
    }
    if (!claim(iteration, partition, 1)) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_transfer_ready: partition " +
                                                 std::to_string(partition) +
                                                 " has been made ready in this iteration");
    }
    courier_.submit(steps_[partition]);
    return UCS_OK;
}

// ---- the engine's thread

// How many of ours a partition of the receiver is made of.
unsigned Sender::parts_of(unsigned receivers) const
{
    const uint64_t first = receivers * other_.part(), end = first + other_.part();
    return static_cast<unsigned>((end - 1) / plan.part() - first / plan.part() + 1);
}

void Sender::send(unsigned first, unsigned count)
{
    if (status() != UCS_OK) {
        return;
    }
    const bool waits = !pending_.empty();
    for (unsigned i = 0; i < count; ++i) {
        pending_.push_back(first + i);
    }
    if (!waits && !go_on()) {
        courier_.await_start(*this);
    }
}

bool Sender::go_on()
{
    if (!receiver_has_started(begun_.load(std::memory_order_relaxed))) {
        return false;
    }
    for (const unsigned partition : pending_) {
        build(partition);
    }
    pending_.clear();
    courier_.send(*this);
    return true;
}

void Sender::build(unsigned partition)
{
    const uint64_t begin = partition * plan.part(), end = begin + plan.part();
    Transfer put{};
    put.kind = Transfer::Kind::put;
    put.local = memory_;
    put.remote = data_.memory;
    for (uint64_t at = begin; at < end; at += put.length) {
        put.length = static_cast<uint32_t>(std::min(end - at, kLargest));
        put.offset = put.remote_offset = at;
        add(put, at + put.length == end);
    }
    posted_.push_back(partition);
    for (uint64_t theirs = begin / other_.part(); theirs * other_.part() < end; ++theirs) {
        const auto index = static_cast<unsigned>(theirs);
        if (--left_[index] == 0) {
            left_[index] = parts_of(index); // of the next iteration
            add_words(index);
        }
    }
    if (posted_.size() == plan.partitions && other_.partitions > 1) {
        add_words(other_.partitions);
    }
}

// They come behind the data. The host's are last: with the last of them all is there.
void Sender::add_words(unsigned index)
{
    for (const Far* words : {&gpu_words_, &host_words_}) {
        if (words->memory != nullptr) {
            add_word(*words->memory, index * kWord, begun_.load(std::memory_order_relaxed));
        }
    }
}

void Sender::retired(bool flagged)
{
    const uint64_t iteration = begun_.load(std::memory_order_relaxed);
    if (flagged) {
        sent_[posted_[retired_++]] = iteration;
    }
    if (unretired() == 0 && posted_.size() == plan.partitions) {
        posted_.clear();
        retired_ = 0;
        complete_.store(iteration, std::memory_order_release);
    }
}

} // namespace gdr::sync
