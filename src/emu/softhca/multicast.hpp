// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Multicast groups of a fabric: a datagram to a group goes to every UD QP attached to it.
#pragma once

#include "emu/softhca/objects.hpp"

#include <vector>

namespace softhca {

constexpr std::uint32_t kMulticastQp = 0xffffff; // the QP number that datagrams to groups are for

inline bool is_multicast(const std::uint8_t* gid)
{
    return gid[0] == 0xff;
}

struct Member {
    QpAddress address;
    std::uint32_t qp_number;
};

// The QPs attached to a group, of any process.
std::vector<Member> members_of(Process& self, const std::uint8_t* gid);

// Whether an own QP is attached to any group.
bool is_attached(Process& self, std::uint32_t qp_number);

} // namespace softhca
