// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A CUDA stream in use: how it tells that it has reached a point, and how it is made to wait.
#pragma once

#include "sync/words.hpp"

#include <map>

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

struct Stream {
    CUcontext context = nullptr;
    Abilities abilities;
    Mapped<StreamWords> words;

    // Of the application's threads, under the context's lock.
    uint64_t points = 0; // given out so far
    uint64_t waits = 0;

    // The engine's.
    Operation* armed = nullptr;      // whose point is to come, in the order of points
    Operation* last_armed = nullptr; //
    Operation* live = nullptr;       // attached and not complete
    size_t busy_index = 0;           // in the engine's list of those with such
    Wait* waiting = nullptr;         // in the order of their numbers
    Wait* last_waiting = nullptr;
    bool freed = false; // is in the engine's list of those to be released

    // Enqueues the next point; its number. handle: this stream. Throws cuda::Error.
    uint64_t mark(const cuda::Driver& driver, CUstream handle);
    // Enqueues the next wait; its number.
    uint64_t wait(const cuda::Driver& driver, CUstream handle);
    // Both, in one call of CUDA where there is one for it.
    void mark_and_wait(const cuda::Driver& driver, CUstream handle);

    // The GPU has done what it was given; what it waits for has been released.
    bool idle() const;
    bool waits_now() const;

    // Conditions, operations, waits and the table of streams hold a stream. Any thread.
    void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
    void let_go();

  private:
    std::atomic<unsigned> holds_{1};
};

// The streams of a context of this library, under its lock.
class Streams {
  public:
    ~Streams();

    // The stream that a handle names now, which is not being captured. Throws Refusal for one that
    // CUDA does not know, cuda::Error.
    Stream& find(const cuda::Driver& driver, CUstream handle);

    // Forgets it, if it is idle; true if so or if it was not known.
    bool release(const cuda::Driver& driver, CUstream handle);

    // Streams of the same CUDA context, this one excepted, that wait.
    unsigned others_waiting(const Stream& stream) const;

  private:
    struct Name {
        CUstream handle;
        CUcontext context;
        const void* thread; // of a per-thread default stream where there is no id
        auto operator<=>(const Name&) const = default;
    };
    struct Known {
        unsigned long long id;
        Stream* stream;
    };

    static Name name_of(const cuda::Driver& driver, CUstream handle);

    std::map<Name, Known> known_;
};

} // namespace gdr::sync
