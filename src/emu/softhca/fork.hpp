// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a fork makes of registered memory with SOFTHCA_COPY_ON_FORK=no. Before Linux 5.12 the
// process that wrote a page first after a fork got a copy of it, and the HCA kept the page that it
// had: the child's, if the parent wrote. Here every fork ends as if the parent had written all its
// pages at once. Spared are those that the child does not have at all (MADV_DONTFORK), which
// libibverbs sees to after ibv_fork_init().
#pragma once

#include "emu/softhca/objects.hpp"

#include <cstddef>

namespace softhca {

// Whether forks have this effect. If not, nothing below needs to be called.
bool forks_part_memory();

// What libibverbs does at registration and at deregistration. 0 or an errno.
int keep_from_children(void* start, std::size_t length);
int give_to_children(void* start, std::size_t length);

// A region of host memory that forks may take from its HCA, from its publication to its end.
void watch_forks(Mr& mr);
void unwatch_forks(Mr& mr);

// As the verbs of these names.
int fork_init();
int dontfork_range(void* start, std::size_t length);
int dofork_range(void* start, std::size_t length);
ibv_fork_status is_fork_initialized();

} // namespace softhca
