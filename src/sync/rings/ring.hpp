// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One channel of a device: kernels write entries into a ring (ugdr_initiate.cuh), and one thread
// reads them, has lanes carry them to the peers, and tells the kernels which are complete.
#pragma once

#include "sync/rings/holds.hpp"
#include "sync/rings/lane.hpp"
#include "sync/rings/memory.hpp"

#include <array>
#include <string>
#include <vector>

namespace gdr::sync {

// An entry, in host memory that the GPU writes.
struct Entry {
    alignas(64) std::array<std::atomic<uint64_t>, 8> words;
};

// What kernels look at, in host memory: how many operations of a channel are complete, and above
// that the status of the first that has failed. One word, so that one look tells both.
struct Completed {
    alignas(64) std::atomic<uint64_t> word;

    static constexpr unsigned kStatusBits = 8;
    static constexpr uint64_t kAll = ~uint64_t{0} >> kStatusBits;

    // Statuses are 0 or negative.
    void tell(uint64_t count, ucs_status_t status)
    {
        word.store(count << kStatusBits | static_cast<uint8_t>(-status), std::memory_order_release);
    }
};

// Where a ring tells what concerns others. Any thread of a ring.
class RingEvents {
  public:
    // An operation has failed.
    virtual void failed(ucs_status_t status, const std::string& what) = 0;

    // Makes the GPU see what was read to its memory.
    virtual void flush() = 0;

  protected:
    ~RingEvents() = default;
};

class Ring final : Retired {
  public:
    struct Place {
        unsigned channel;
        Entry* entries;
        unsigned log_entries;
        Completed* completed;
        bool flushes; // what is read to GPU memory has to be flushed
    };

    Ring(const Place& place, Memories& memories, RemoteMemories& remote_memories,
         RingEvents& events);
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() = default;

    // ---- the one thread

    // Takes some entries, posts them, and tells of those that are complete. Returns how many there
    // were.
    unsigned progress();

    // Whether operations are not complete.
    bool under_way() const { return completed_ != taken_.load(std::memory_order_relaxed); }

    // ---- any thread

    // The same, and for entries that are still to be read. It stays so if no kernel runs.
    bool busy() const;

    // Lets kernels go on, for good. To be called when no thread makes progress.
    void abandon();

  private:
    // A ticket that is not complete. Numbers of memories in use, or 0.
    struct Flight {
        uint32_t local = 0, remote = 0, signal = 0;
        Transfer::Kind kind{};
        bool flush = false; // before it is told to be complete
        bool over = false;
    };

    static constexpr unsigned kAtOnce = 16; // entries of a round
    static constexpr unsigned kAhead = 4;   // entries that are fetched early
    using Words = std::array<uint64_t, 7>;

    uint64_t index(uint64_t ticket) const { return ticket & (flights_.size() - 1); }
    bool is_new(uint64_t ticket) const;
    bool read(Words& words) const;
    void take(const Words& words);
    std::string check(const Words& words, Flight& flight, ucs_status_t& status);
    bool post();
    unsigned post_some();
    unsigned poll();
    void tell_of_completed();
    void retired(uint64_t ticket, ucs_status_t status) override;
    void fail(uint64_t ticket, ucs_status_t status, const std::string& what);
    void give_back(Flight& flight);

    const Place place_;
    Holds<Memory> memories_;
    Holds<RemoteMemory> remote_memories_;
    RingEvents& events_;

    std::atomic<uint64_t> taken_{0}; // entries; this thread alone writes it
    uint64_t completed_ = 0;
    ucs_status_t status_ = UCS_OK; // of the first operation that has failed
    std::vector<Flight> flights_;  // a place for each entry
    Transfer next_{};              // checked; lane_ had no room for it
    Lane* lane_ = nullptr;         // of next_; nullptr: there is none
    std::vector<Lane*> posted_;    // to be submitted
    std::vector<Lane*> busy_;      // with operations under way, in no order
};

} // namespace gdr::sync
