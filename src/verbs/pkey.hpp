// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The partition key table of an InfiniBand port, and the choice of a key from it.
#pragma once

#include "verbs/device.hpp"

#include <cstdint>
#include <optional>

namespace gdr::verbs {

inline constexpr uint16_t kFullMember = 0x8000; // a limited member reaches only full members
inline constexpr uint16_t kPartition = 0x7fff;

struct Pkey {
    uint16_t index;
    uint16_t value; // with its membership bit
};

// Chooses the first full member of the table, or the first limited member if there is no full one.
// partition, if given, limits the choice; its membership bit is ignored.
std::optional<Pkey> choose_pkey(ibv_context* context, const Port& port,
                                std::optional<unsigned long> partition);

} // namespace gdr::verbs
