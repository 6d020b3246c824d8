// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The fabric as one process sees it: the table of processes, whose arenas are mapped on first
// contact, the table of queue pair numbers, and this process's own arena with its allocator.
#pragma once

#include "emu/softhca/fabric_file.hpp"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace softhca {

class Agent;
class Copier;

// Indices of the tables in the arena, for every kind of object; under one mutex.
class IndexPool {
  public:
    explicit IndexPool(std::uint32_t size, std::uint32_t first = 0) : size_(size), fresh_(first) {}
    // kNone when all are in use. A free index is reused as late as possible.
    std::uint32_t allocate()
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (fresh_ < size_) {
            return fresh_++;
        }
        if (free_.empty()) {
            return kNone;
        }
        const std::uint32_t index = free_.front();
        free_.erase(free_.begin());
        return index;
    }
    void release(std::uint32_t index)
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        free_.push_back(index);
    }
    // All indices ever allocated are below this.
    std::uint32_t used()
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        return fresh_;
    }

  private:
    std::mutex mutex_;
    std::uint32_t size_;
    std::uint32_t fresh_;
    std::vector<std::uint32_t> free_;
};

// What this process has registered.
struct Registrations {
    std::atomic<std::uint64_t> host{0}, peer{0}, dmabuf{0}, relaxed{0}, released{0};
    std::atomic<std::uint64_t> locked_bytes{0}; // host memory, as RLIMIT_MEMLOCK counts it
};

struct QpAddress {
    Token token;
    std::uint32_t index;
};

class Process {
  public:
    // This process's membership, joined on first use; throws std::system_error. A forked child
    // inherits none and joins by itself.
    static Process& join();
    // Null before the first join and in a forked child.
    static Process* current() { return current_.load(std::memory_order_acquire); }

    Token token() const { return token_; }
    Arena& arena() { return *arena_; }
    Fabric& fabric() { return *fabric_; }
    Agent& agent() { return *agent_; }
    Copier& copier() { return *copier_; }

    bool alive(Token other) const
    {
        if (other == token_) {
            return true;
        }
        const ProcessSlot& slot = fabric_->processes[other & 0xff];
        return slot.token.load(std::memory_order_acquire) == other && holds_mutex(slot);
    }

    // The arena of a process, dead ones included that had been mapped before; null if there is no
    // such process or it cannot be reached.
    Arena* arena_of(Token other)
    {
        if (other == token_) {
            return arena_;
        }
        const Peer& peer = peers_[other & 0xff];
        if (peer.token.load(std::memory_order_acquire) == other) {
            return peer.arena;
        }
        return map_arena(other);
    }

    // Returns when no other process operates any more on this one's memory by a key looked up
    // before. Or on the memory of any process.
    void await_peers() { await_peers(*arena_); }
    void await_peers(Arena& owner);

    // A key for the region or window of this index, different from its former ones and from those
    // of former processes.
    std::uint32_t next_key(std::uint32_t index)
    {
        const std::uint32_t tags = (1u << kKeyTagBits) - 1;
        return index << kKeyTagBits | ((token_ * 7919 + next_tag_.fetch_add(1)) % tags + 1);
    }

    // The same, whose low byte a program has chosen.
    std::uint32_t next_key(std::uint32_t index, std::uint8_t low)
    {
        const std::uint32_t tags = (1u << (kKeyTagBits - 8)) - 1;
        return index << kKeyTagBits | ((token_ * 7919 + next_tag_.fetch_add(1)) % tags + 1) << 8 |
               low;
    }

    // Zeroed shared memory of the own arena, by offset; throws std::bad_alloc.
    std::uint64_t allocate(std::size_t size);
    void release(std::uint64_t offset, std::size_t size);

    // A fabric-wide number for the QP with this index; 0 when there is none left.
    std::uint32_t allocate_qp_number(std::uint32_t index);
    void release_qp_number(std::uint32_t number);
    std::optional<QpAddress> find_qp(std::uint32_t number) const
    {
        const std::uint64_t entry =
            fabric_->qp_numbers[number & 0xffff].load(std::memory_order_acquire);
        if ((entry & 0xffff) == 0 || ((entry >> 16) & 0xff) != (number >> 16)) {
            return std::nullopt;
        }
        return QpAddress{static_cast<Token>(entry >> 32),
                         static_cast<std::uint32_t>((entry & 0xffff) - 1)};
    }

    // Writes one record to a pipe of any process. A full pipe or one just closed drops it.
    void write_pipe(Token owner, PipeRef pipe, const void* record, std::size_t size);

    // What is told of each device, once: queues in use look at it.
    std::array<std::once_flag, kMaxDevices> described;

    Registrations registrations;
    std::atomic<std::uint64_t> queue_pairs_created{0}, queue_pairs_destroyed{0};
    std::atomic<std::uint64_t> completions{0}; // polled
    // Made for one thread at a time, and what was done by the extended interfaces.
    std::atomic<std::uint64_t> thread_domain_queues{0}, single_threaded_cqs{0};
    std::atomic<std::uint64_t> batches{0}, extended_completions{0};
    // The first key of all may be MLX5_INVALID_LKEY, which ends the lists of mlx5's receives.
    IndexPool mr_indices{kMaxMrs, 1}, cq_indices{kMaxCqs}, qp_indices{kMaxQps},
        srq_indices{kMaxSrqs}, context_indices{kMaxContexts};

  private:
    struct Peer {
        std::atomic<Token> token{0};
        Arena* arena = nullptr;
    };
    struct OpenPipe {
        std::uint32_t id;
        int fd;
    };

    Process();
    void open_fabric();
    bool enter_fabric(const std::string& path);
    void map_fabric(const std::string& path, bool alone);
    void claim_slot();
    void sweep();
    void clear_slot(ProcessSlot& slot);
    Arena* map_arena(Token other);
    static void forget_in_child();
    static void leave_at_exit();

    static std::atomic<Process*> current_;
    static Process* parents_; // of a forked child: never used, never freed

    Token token_ = 0;
    std::atomic<std::uint32_t> next_tag_{0};
    Fabric* fabric_ = nullptr;
    Arena* arena_ = nullptr;
    int fabric_fd_ = -1;
    int arena_fd_ = -1;
    std::unique_ptr<Agent> agent_;
    std::unique_ptr<Copier> copier_;
    Peer peers_[kMaxProcesses];
    std::mutex mutex_; // peers_ and pipes_
    std::map<std::pair<Token, int>, OpenPipe> pipes_;
    std::mutex heap_mutex_;
    std::map<std::uint64_t, std::uint64_t> free_ranges_; // offset -> size
};

} // namespace softhca
