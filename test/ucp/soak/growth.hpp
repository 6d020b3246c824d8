// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a process holds, and whether it is more than before.
#pragma once

#include <string>

namespace ucptest {

struct Holdings {
    long memory_kb; // resident, of which nobody else has a part
    long locked_kb;
    long descriptors;
    long threads;
    long queue_pairs;   // of the emulated HCA
    long registrations; // of the emulated HCA
};

// Of the calling process.
Holdings holdings();

// What grew between moments at which nothing was in use; empty if nothing did. What an allocator
// keeps varies: memory may be a little more. Of a heap the pages around memory in use stay
// registered, and where these lie changes at first: registrations are compared with the middle.
std::string growth(const Holdings& before, const Holdings& middle, const Holdings& after);

// What is left after everything was closed; empty if nothing is.
std::string remains(const Holdings& now);

std::string text(const Holdings& now);

} // namespace ucptest
