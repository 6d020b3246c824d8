// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA stream in use: how it reports that it has reached a point, and how it is made to wait.
#pragma once

#include "sync/triggers/words.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace gdr::sync {

struct Operation;
struct Wait;

// What a GPU's streams can do.
struct Abilities {
    bool memops = false;         // stream memory operations: write and wait for words
    bool sees_writes = false;    // running work sees what HCAs write
    bool flushes_writes = false; // a flush makes it see them
};

Abilities abilities_of(const cuda::Driver& driver, CUdevice device);

// Of the device of the current context.
Abilities current_abilities(const cuda::Driver& driver);

// The context of a stream. Throws Refusal if CUDA does not know the stream.
CUcontext context_of(const cuda::Driver& driver, CUstream handle);

struct LetGo {
    void operator()(auto* held) const { held->let_go(); }
};
struct Stream;
using HeldStream = std::unique_ptr<Stream, LetGo>;

// The next number that a stream gives to what is enqueued. Others see it as given at once; the
// destructor takes it back unless keep() was called.
class NextNumber {
  public:
    explicit NextNumber(std::atomic<uint64_t>& given) : given_(given), number_(++given) {}
    NextNumber(const NextNumber&) = delete;
    NextNumber& operator=(const NextNumber&) = delete;
    ~NextNumber()
    {
        if (!kept_) {
            --given_;
        }
    }

    operator uint64_t() const { return number_; }
    void keep() { kept_ = true; }

  private:
    std::atomic<uint64_t>& given_;
    const uint64_t number_;
    bool kept_ = false;
};

// CU_STREAM_PER_THREAD names another stream in each thread. For it, the number of this thread since
// the start of the process; 0 for other handles.
uint64_t thread_of(CUstream handle);

// A handle names one stream at a time.
struct StreamName {
    CUcontext context = nullptr;
    CUstream handle = nullptr;
    const void* thread = nullptr; // of a per-thread default stream
    // clang-tidy 14 takes the 0 in the compiler's comparison for one of ours.
    auto operator<=>(const StreamName&) const = default; // NOLINT(modernize-use-nullptr)
};

struct Stream {
    StreamName name;
    unsigned long long id = 0; // handles are reused; 0: the driver has no ids
    Abilities abilities;
    Mapped<StreamWords> words;

    // Held while something is enqueued and the engine is told: the order of enqueueing, of numbers
    // and of commands must be the same. CUDA may block the enqueueing thread until this stream goes
    // on, which may depend on other threads, so nothing that those need is under this lock.
    std::mutex enqueueing;

    // Given out so far, under that lock.
    std::atomic<uint64_t> points{0};
    std::atomic<uint64_t> waits{0};

    // For the engine's thread alone.
    Operation* armed = nullptr; // whose point is to come, in the order of points
    Operation* last_armed = nullptr;
    Operation* live = nullptr; // attached and not complete
    size_t busy_index = 0;     // in the engine's list of streams with live operations
    Wait* waiting = nullptr;   // in the order of their numbers
    Wait* last_waiting = nullptr;
    bool freed = false; // is in the engine's list of streams to release

    // Enqueue a point, a wait, or both, in one CUDA call if the driver has it. handle: this stream.
    // The numbers are of its points and of its waits. Throw cuda::Error.
    void mark(const cuda::Driver& driver, CUstream handle, NextNumber& point);
    void wait(const cuda::Driver& driver, CUstream handle, NextNumber& wait);
    void mark_and_wait(const cuda::Driver& driver, CUstream handle, NextNumber& point,
                       NextNumber& wait);

    // Whether the GPU has reached all its points and all its waits have been released.
    bool idle() const;
    bool waits_now() const;

    // Conditions, operations, waits and the table of streams hold a stream. Any thread.
    void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
    HeldStream held()
    {
        hold();
        return HeldStream(this);
    }
    void let_go();

  private:
    std::atomic<unsigned> holds_{1};
};

// The number of other streams of the same CUDA context that wait or are about to. It counts all
// contexts of this library, since they share the hardware queues of the GPU.
unsigned others_waiting(const Stream& stream);

// A stream that no other thread enqueues to or forgets meanwhile.
struct LockedStream {
    HeldStream stream;
    std::unique_lock<std::mutex> enqueueing;
};

// The streams of a context of this library. Any thread.
class Streams {
  public:
    // The stream that a handle names now; it must not be captured. Throws Refusal if CUDA does not
    // know it, cuda::Error.
    LockedStream lock(const cuda::Driver& driver, CUstream handle);

    // Forgets the stream if it is idle. Returns true if so, or if it was not known.
    bool release(const cuda::Driver& driver, CUstream handle);

  private:
    // Returns the known stream of that name. If there is none, it stores and returns `other`.
    HeldStream known_or(const StreamName& name, unsigned long long id, HeldStream other);

    std::mutex lock_; // no CUDA call is made under it
    std::map<StreamName, HeldStream> known_;
};

} // namespace gdr::sync
