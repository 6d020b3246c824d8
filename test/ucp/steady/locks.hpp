// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Mutexes that the process locks, counted by the library that asked for them. The program defines
// pthread_mutex_lock itself, and the dynamic linker gives it to every library.
#pragma once

#include <cstdint>

namespace ucptest {

// From now on; nothing is counted before. Call remember_libraries() first.
void start_counting_locks();
void stop_counting_locks();

// Calls of pthread_mutex_lock and pthread_mutex_trylock by a library, by its index (caller.hpp).
uint64_t locks(int library);

} // namespace ucptest
