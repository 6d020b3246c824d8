// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The copier's threads and how other processes call them, see copier.hpp.
#include "emu/softhca/copier.hpp"

#include "emu/softhca/clock.hpp"
#include "emu/softhca/cuda_copy.hpp"
#include "emu/softhca/engine.hpp"
#include "emu/softhca/fabric.hpp"
#include "emu/softhca/futex.hpp"
#include "emu/softhca/thread.hpp"
#include "emu/softhca/work_request.hpp"

#include <bit>

namespace softhca {
namespace {

// How long to wait for another process before looking whether it lives.
constexpr std::uint64_t kPatience = 10'000'000; // ns

} // namespace

void call_copier(Arena& arena, std::uint32_t qp_index)
{
    arena.copies[qp_index / 64].fetch_or(std::uint64_t{1} << qp_index % 64);
    call(arena.copy_calls);
}

void Copier::start_running()
{
    std::call_once(running_, [this] {
        buffer_ = process_.allocate(kBufferSize);
        start_thread([this] { run_queues(); });
    });
}

void Copier::start_answering()
{
    std::call_once(answering_, [this] { start_thread([this] { answer(); }); });
}

void Copier::run_queues()
{
    Arena& arena = process_.arena();
    while (true) {
        const std::uint32_t calls = arena.copy_calls.load(std::memory_order_acquire);
        for (std::uint32_t word = 0; word < kMaxQps / 64; ++word) {
            if (arena.copies[word].load(std::memory_order_relaxed) == 0) {
                continue;
            }
            for (std::uint64_t due = arena.copies[word].exchange(0); due != 0; due &= due - 1) {
                const auto index = word * 64 + static_cast<std::uint32_t>(std::countr_zero(due));
                running_qp_.store(index + 1);
                run_copies(process_, index);
                running_qp_.store(0);
                imports_.drop_stale();
            }
        }
        sleep_while(arena.copy_calls, calls);
    }
}

void Copier::answer()
{
    Arena& arena = process_.arena();
    while (true) {
        const std::uint32_t calls = arena.staging_calls.load(std::memory_order_acquire);
        for (Staging& staging : arena.stagings) {
            const std::uint32_t asked = staging.asked.load(std::memory_order_acquire);
            if (asked != staging.answered.load(std::memory_order_relaxed)) {
                staging.done = copy_for(staging);
                change(staging.answered, asked);
            }
        }
        sleep_while(arena.staging_calls, calls);
    }
}

bool Copier::copy_for(const Staging& staging)
{
    Arena& arena = process_.arena();
    const DirectAccess access(process_, arena);
    const MrShared& region = arena.mrs[key_index(staging.key)];
    Arena* asker = process_.arena_of(staging.asker);
    if (region.key.load(std::memory_order_acquire) != staging.key || asker == nullptr) {
        return false;
    }
    const Extent extent = region.extent;
    const std::uint64_t offset = staging.address - extent.address;
    if (region.cuda.owner == 0 || extent.checksum() != region.checksum || offset > extent.length ||
        staging.length > extent.length - offset || staging.length > kBufferSize) {
        return false;
    }
    const Segment segment = {staging.address, staging.length, &region};
    void* buffer = asker->at<std::uint8_t>(staging.buffer);
    return staging.to_device ? copy_to_device(segment, buffer, staging.length)
                             : copy_from_device(segment, buffer);
}

std::uint64_t Copier::buffer() const
{
    return reinterpret_cast<std::uint64_t>(process_.arena().at<std::uint8_t>(buffer_));
}

Moved Copier::ask_owner(const Segment& segment, bool to_device)
{
    const Token owner = segment.region->cuda.owner;
    Arena& arena = *process_.arena_of(owner);
    Staging& staging = arena.stagings[process_.token() & 0xff];
    const auto await_answer = [&] {
        const std::uint32_t asked = staging.asked.load(std::memory_order_relaxed);
        for (std::uint32_t answered; process_.alive(owner);) {
            answered = staging.answered.load(std::memory_order_acquire);
            if (answered == asked) {
                return true;
            }
            sleep_while(staging.answered, answered, now_ns() + kPatience);
        }
        return false;
    };
    // A former process of this slot may have died waiting.
    if (!await_answer()) {
        return Moved::gone;
    }
    staging.asker = process_.token();
    staging.key = segment.region->key.load(std::memory_order_relaxed);
    staging.address = segment.address;
    staging.length = segment.length;
    staging.buffer = buffer_;
    staging.to_device = to_device;
    staging.asked.fetch_add(1, std::memory_order_release);
    call(arena.staging_calls);
    if (!await_answer()) {
        return Moved::gone;
    }
    return staging.done ? Moved::done : Moved::fault;
}

} // namespace softhca
