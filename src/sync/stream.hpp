// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA stream in use: how it tells that it has reached a point, and how it is made to wait.
#pragma once

#include "sync/words.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace gdr::sync {

struct Operation;
struct Wait;

// What a GPU's streams can do.
struct Abilities {
    bool memops = false;         // write and wait for words
    bool sees_writes = false;    // what HCAs write is there for what runs already
    bool flushes_writes = false; // or can be brought there
};

Abilities abilities_of(const cuda::Driver& driver, CUdevice device);

// Of the device of the current context.
Abilities current_abilities(const cuda::Driver& driver);

// The context of a stream. Throws Refusal for one that CUDA does not know.
CUcontext context_of(const cuda::Driver& driver, CUstream handle);

struct LetGo {
    void operator()(auto* held) const { held->let_go(); }
};
struct Stream;
using HeldStream = std::unique_ptr<Stream, LetGo>;

// The next of the numbers that a stream gives to what is enqueued. Others see it as given from the
// beginning; it is taken back if it is not kept.
class NextNumber {
  public:
    explicit NextNumber(std::atomic<uint64_t>& given) : given_(given), number_(++given) {}
    NextNumber(const NextNumber&) = delete;
    NextNumber& operator=(const NextNumber&) = delete;
    ~NextNumber()
    {
        if (!kept_)
            --given_;
    }

    operator uint64_t() const { return number_; }
    void keep() { kept_ = true; }

  private:
    std::atomic<uint64_t>& given_;
    const uint64_t number_;
    bool kept_ = false;
};

// Of a handle that names another stream in each thread: which thread this is, of all that there
// have been. Else 0.
uint64_t thread_of(CUstream handle);

// A handle names one stream at a time.
struct StreamName {
    CUcontext context = nullptr;
    CUstream handle = nullptr;
    const void* thread = nullptr; // of a per-thread default stream where there is no id
    // clang-tidy 14 takes the 0 with which the compiler compares for one of ours.
    auto operator<=>(const StreamName&) const = default; // NOLINT(modernize-use-nullptr)
};

struct Stream {
    StreamName name;
    unsigned long long id = 0; // handles are used again; 0: CUDA has none
    Abilities abilities;
    Mapped<StreamWords> words;

    // Held while something is enqueued and the engine is told of it: what is enqueued to a stream
    // has to be numbered, and known to the engine, in the same order. CUDA may let who enqueues
    // wait, until this stream goes on, which other threads may have to bring about: what they need
    // for that they find without this lock.
    std::mutex enqueueing;

    // Given out so far, under that lock.
    std::atomic<uint64_t> points{0};
    std::atomic<uint64_t> waits{0};

    // The engine's.
    Operation* armed = nullptr;      // whose point is to come, in the order of points
    Operation* last_armed = nullptr; //
    Operation* live = nullptr;       // attached and not complete
    size_t busy_index = 0;           // in the engine's list of those with such
    Wait* waiting = nullptr;         // in the order of their numbers
    Wait* last_waiting = nullptr;
    bool freed = false; // is in the engine's list of those to be released

    // Enqueue a point, a wait, or both, in one call of CUDA where there is one for it. handle: this
    // stream; numbers: of its points, of its waits. Throw cuda::Error.
    void mark(const cuda::Driver& driver, CUstream handle, NextNumber& point);
    void wait(const cuda::Driver& driver, CUstream handle, NextNumber& wait);
    void mark_and_wait(const cuda::Driver& driver, CUstream handle, NextNumber& point,
                       NextNumber& wait);

    // The GPU has done what it was given; what it waits for has been released.
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

// Streams of the same CUDA context, this one excepted, that wait, or are about to: for any context
// of this library, since all of them share the hardware queues of the GPU.
unsigned others_waiting(const Stream& stream);

// A stream that nobody else enqueues to, nor forgets.
struct LockedStream {
    HeldStream stream;
    std::unique_lock<std::mutex> enqueueing;
};

// The streams of a context of this library. Any thread.
class Streams {
  public:
    // The stream that a handle names now, which is not being captured. Throws Refusal for one that
    // CUDA does not know, cuda::Error.
    LockedStream lock(const cuda::Driver& driver, CUstream handle);

    // Forgets it, if it is idle; true if so or if it was not known.
    bool release(const cuda::Driver& driver, CUstream handle);

  private:
    // The one that is known; where there is none the other, which is known from then on.
    HeldStream known_or(const StreamName& name, unsigned long long id, HeldStream other);

    std::mutex lock_; // held for no call of CUDA
    std::map<StreamName, HeldStream> known_;
};

} // namespace gdr::sync
