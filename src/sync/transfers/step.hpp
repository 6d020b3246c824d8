// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is done with a prepared transfer where a condition holds, and by a thread of the
// application: an iteration begins, partitions are ready, an iteration is waited for.
#pragma once

#include <ucs/type/status.h>

#include <cstdint>

namespace gdr::sync {

class Prepared;

struct Step {
    enum class Kind : uint8_t { start, ready, wait };

    Step* next = nullptr; // in the pool, and on its way to the engine's thread

    Prepared* transfer = nullptr;
    Kind kind{};
    bool repeated = false; // runs each time that its condition holds, in the iteration of then
    unsigned first = 0, count = 0; // ready: partitions
    uint64_t iteration = 0;

    // The functions of an operation (Call), in the engine's thread.
    static ucs_status_t begin(void* step);
    static ucs_status_t go_on(void* step);

  private:
    ucs_status_t make_ready();

    bool posted_ = false;
    unsigned sent_ = 0; // of the partitions
};

} // namespace gdr::sync
