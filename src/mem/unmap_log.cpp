// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A ring of entries of two words. Each word is self-contained, so memory order between words does
// not matter.
#include "mem/unmap_log.hpp"

namespace gdr::mem {
namespace {

constexpr unsigned kPageShift = 12; // the smallest page size there is
constexpr unsigned kTurnBits = 20;
constexpr uint64_t kTurnMask = (uint64_t{1} << kTurnBits) - 1;
constexpr uint64_t kLastPage = UINT64_MAX >> kTurnBits; // no address is so high

uint64_t page_of(uint64_t word)
{
    return word >> kTurnBits;
}

// By how many turns a word is newer than turn; negative: older. Turns wrap around.
int32_t turns_since(uint64_t turn, uint64_t word)
{
    constexpr unsigned kSpare = 32 - kTurnBits;
    return static_cast<int32_t>(static_cast<uint32_t>(word - turn) << kSpare) >> kSpare;
}

void replace_older(std::atomic<uint64_t>& word, uint64_t page, uint64_t turn)
{
    const uint64_t wanted = page << kTurnBits | turn;
    uint64_t present = word.load(std::memory_order_relaxed);
    while (turns_since(turn, present) < 0 &&
           !word.compare_exchange_weak(present, wanted, std::memory_order_relaxed)) {
    }
}

} // namespace

UnmapLog& UnmapLog::instance()
{
    static UnmapLog log;
    return log;
}

void UnmapLog::append(uintptr_t start, size_t length)
{
    const uint64_t number = end_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t turn = (number / kCapacity + 1) & kTurnMask;
    const uintptr_t behind = length <= UINTPTR_MAX - start ? start + length : UINTPTR_MAX;
    Entry& entry = entries_[number % kCapacity];
    replace_older(entry.first, std::min<uint64_t>(start >> kPageShift, kLastPage), turn);
    replace_older(entry.last, std::min<uint64_t>(((behind - 1) >> kPageShift) + 1, kLastPage),
                  turn);
    alarm_.add(std::min<uint64_t>(length, kAlarm) + kAlarmPerRange);
}

UnmapLog::State UnmapLog::look_up(uint64_t number, Range* range) const
{
    const Entry& entry = entries_[number % kCapacity];
    const uint64_t turn = (number / kCapacity + 1) & kTurnMask;
    const uint64_t first = entry.first.load(std::memory_order_relaxed);
    const uint64_t last = entry.last.load(std::memory_order_relaxed);
    if (turns_since(turn, first) > 0 || turns_since(turn, last) > 0) {
        return State::overwritten;
    }
    if (turns_since(turn, first) < 0 || turns_since(turn, last) < 0) {
        return State::being_written;
    }
    *range = {page_of(first) << kPageShift, page_of(last) << kPageShift};
    return State::written;
}

} // namespace gdr::mem
