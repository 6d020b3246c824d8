// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A component that needs no device: one memory domain over host memory, which it "detects" as
// managed memory inside one known buffer, and a loopback interface that cannot send. It shows what
// src/abi makes of a component, and counts the calls that reach it.
#pragma once

#include "abi/component.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace toy {

struct MdConfig {
    gdr::abi::MdConfig super;
    char* refuse; // reason for which open_md fails, empty: none
};

struct IfaceConfig {
    gdr::abi::IfaceConfig super;
    unsigned depth;
    size_t segment;
    double timeout;
    int enable;
    unsigned mode;
    unsigned long paths;
};

const gdr::abi::Component& component();

inline constexpr size_t kRkeySize = 12;

// What the domains of this process were asked.
struct Calls {
    unsigned reg = 0;
    unsigned hidden_reg = 0;
    unsigned local_reg = 0;
    unsigned dereg = 0;
    unsigned invalidated = 0;
    unsigned released_rkeys = 0;
    unsigned open_domains = 0;
    gdr::abi::EpOperation operation = gdr::abi::EpOperation::other;
    IfaceConfig config{};
};
extern Calls calls;

// The memory that is detected.
extern std::array<std::byte, 4096> detected;

// Invalidations end here instead of at once, when not NULL.
extern uct_completion_t** unfinished_invalidation;

// The next call of a memory domain throws this, when not empty.
extern std::string throw_next;

} // namespace toy
