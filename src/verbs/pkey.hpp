// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The table of partition keys of an InfiniBand port, and the choice of the one that is used.
#pragma once

#include "verbs/device.hpp"

#include <cstdint>
#include <optional>

namespace gdr::verbs {

inline constexpr uint16_t kFullMember = 0x8000; // a limited member reaches full ones alone
inline constexpr uint16_t kPartition = 0x7fff;

struct Pkey {
    uint16_t index;
    uint16_t value; // with its membership bit
};

// The first full member of the table, where there is none the first limited one; of this partition,
// if one is given, without its membership bit. Nothing if there is none.
std::optional<Pkey> choose_pkey(ibv_context* context, const Port& port,
                                std::optional<unsigned long> partition);

} // namespace gdr::verbs
