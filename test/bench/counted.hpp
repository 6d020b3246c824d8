// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What callgrind is to count of a process that talks to itself, and no more: it collects in
// bench_counted() alone. Between two such calls the emulated HCA does what was posted, so that no
// poll is in vain, and what the emulation does by itself is left out.
#pragma once

#include "../ucp/support/cuda.hpp"
#include "../ucp/support/emulation.hpp"
#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"

#include <cinttypes>
#include <cstdio>
#include <initializer_list>
#include <string>

// Named in --toggle-collect.
extern "C" [[gnu::noinline]] inline void bench_counted(void (*step)(void*), void* object)
{
    step(object);
    asm volatile("" ::: "memory"); // not a jump, whose end callgrind would not see
}

namespace bench {

// To be called before memory of these kinds is allocated.
inline void open_gpu_for(std::initializer_list<std::string> kinds)
{
    for (const std::string& kind : kinds) {
        if (ucptest::ucs_type(ucptest::memory_kind(kind)) != UCS_MEMORY_TYPE_HOST) {
            ucptest::require(ucptest::cuda::available(0), "there is no GPU");
        }
    }
}

// Posts operations in batches, and polls until each batch is complete. Operations has
//   bool post()      one of them; false where there is no room before a poll
//   void progress()  a poll
//   bool complete()  whether all that was posted is
template <class Operations>
class Batches {
  public:
    Batches(Operations& operations, unsigned batch) : operations_(operations), batch_(batch)
    {
        ucptest::require(emulation_.has_hca(), "instructions are counted on an emulated HCA alone: "
                                               "on a real one most polls are in vain");
    }

    void warm_up(unsigned batches)
    {
        run(batches, [](void (*step)(void*), void* object) { step(object); });
    }

    // Prints how many operations were counted, and what the emulated HCA did for them.
    void count(unsigned batches)
    {
        const ucptest::HcaCounters before = emulation_.hca();
        run(batches, bench_counted);
        const ucptest::HcaCounters after = emulation_.hca();
        const auto work = [](const ucptest::HcaCounters& counters) {
            return counters.sends + counters.writes + counters.reads + counters.atomics;
        };
        std::printf("operations=%u work_requests=%" PRIu64 " signaled=%" PRIu64
                    " doorbells=%" PRIu64 " completions=%" PRIu64 " bytes=%" PRIu64 "\n",
                    batches * batch_, work(after) - work(before), after.signaled - before.signaled,
                    after.doorbells - before.doorbells, after.completions - before.completions,
                    after.bytes - before.bytes);
    }

  private:
    template <class Call>
    void run(unsigned batches, Call call)
    {
        for (unsigned i = 0; i < batches; ++i) {
            to_post_ = batch_;
            do {
                call([](void* self) { static_cast<Batches*>(self)->post(); }, this);
                finish_posted();
                call([](void* self) { static_cast<Batches*>(self)->operations_.progress(); }, this);
                finish_posted(); // what the poll posted: answers, and what had waited for room
            } while (to_post_ > 0 || !operations_.complete());
        }
    }

    // Counters are exact: the emulated HCA does what was posted before it tells them.
    void finish_posted() const { (void)emulation_.hca(); }

    void post()
    {
        while (to_post_ > 0 && operations_.post()) {
            --to_post_;
        }
    }

    const ucptest::Emulation emulation_;
    Operations& operations_;
    const unsigned batch_;
    unsigned to_post_ = 0;
};

// What both programs do: warm up, and count. The texts are those of the command line.
template <class Operations>
void count_batches(Operations& operations, const std::string& count, const std::string& batch)
{
    const auto in_each = static_cast<unsigned>(std::stoul(batch));
    Batches batches(operations, in_each);
    batches.warm_up(100);
    batches.count(static_cast<unsigned>(std::stoul(count)) / in_each);
}

} // namespace bench
