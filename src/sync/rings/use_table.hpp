// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Objects that kernels name by numbers. A thread looks one up, and has it in use, without a lock;
// nobody can take it out meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace gdr::sync {

// A number has the place in the table and counts the place's users, so that a number that is over
// means nothing for a long time. 0 is never one.
template <typename Item>
class UseTable {
  public:
    static constexpr unsigned kPlaceBits = 16, kTurnBits = 13; // 29 bits in all

    // Throws std::bad_alloc.
    uint32_t add(Item item)
    {
        const std::lock_guard guard(lock_);
        if (free_.empty()) {
            grow();
        }
        const uint32_t place = free_.back();
        Slot& slot = slot_of(place);
        slot.item.emplace(std::move(item));
        free_.pop_back();
        const uint32_t turn = slot.turn = next(slot.turn);
        slot.state.store(live(turn), std::memory_order_release);
        return turn << kPlaceBits | place;
    }

    // Any thread, without a lock. The item, in use from now on; nullptr if there is none.
    Item* use(uint32_t number)
    {
        Slot* slot = find(number);
        if (slot == nullptr) {
            return nullptr;
        }
        const uint64_t wanted = live(number >> kPlaceBits);
        uint64_t state = slot->state.load(std::memory_order_relaxed);
        do {
            if ((state & ~kUses) != wanted) {
                return nullptr;
            }
        } while (!slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                                    std::memory_order_relaxed));
        return &*slot->item;
    }

    // Any thread, without a lock; once for each use.
    void give_back(uint32_t number) { find(number)->state.fetch_sub(1, std::memory_order_release); }

    // Ends the item. False if it is in use.
    bool end(uint32_t number)
    {
        Slot& slot = *find(number);
        uint64_t unused = live(number >> kPlaceBits);
        if (!slot.state.compare_exchange_strong(unused, 0, std::memory_order_acquire)) {
            return false;
        }
        const std::lock_guard guard(lock_);
        slot.item.reset();
        free_.push_back(number & (kPlaces - 1));
        return true;
    }

  private:
    static constexpr uint32_t kPlaces = 1u << kPlaceBits, kTurns = 1u << kTurnBits;
    static constexpr uint32_t kChunk = 256;
    static constexpr uint64_t kUses = 0xffffffff;

    struct Slot {
        std::atomic<uint64_t> state{0}; // 0, or live() and the uses
        uint32_t turn = 0;
        std::optional<Item> item{};
    };

    static uint64_t live(uint32_t turn) { return uint64_t{turn} << 32; }
    static uint32_t next(uint32_t turn) { return turn + 1 < kTurns ? turn + 1 : 1; }

    Slot& slot_of(uint32_t place)
    {
        return chunks_[place / kChunk].load(std::memory_order_relaxed)[place % kChunk];
    }

    Slot* find(uint32_t number)
    {
        if (number < kPlaces) {
            return nullptr; // no turn: an empty slot would seem to be live
        }
        const uint32_t place = number & (kPlaces - 1);
        Slot* chunk = chunks_[place / kChunk].load(std::memory_order_acquire);
        return chunk != nullptr ? &chunk[place % kChunk] : nullptr;
    }

    void grow()
    {
        if (all_.size() == kPlaces / kChunk) {
            throw std::bad_alloc();
        }
        free_.reserve(kPlaces);
        const auto first = static_cast<uint32_t>(all_.size()) * kChunk;
        Slot* chunk = all_.emplace_back(std::make_unique<Slot[]>(kChunk)).get();
        for (uint32_t i = kChunk; i-- > 0;) {
            free_.push_back(first + i);
        }
        chunks_[first / kChunk].store(chunk, std::memory_order_release);
    }

    std::atomic<Slot*> chunks_[kPlaces / kChunk] = {};
    std::mutex lock_; // of what follows
    std::vector<std::unique_ptr<Slot[]>> all_{};
    std::vector<uint32_t> free_{};
};

} // namespace gdr::sync
