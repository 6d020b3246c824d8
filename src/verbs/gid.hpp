// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The table of GIDs of a port, and the choice of the one that addresses it.
#pragma once

#include "verbs/device.hpp"

#include <optional>
#include <string>

namespace gdr::verbs {

enum class GidType { infiniband, roce_v1, roce_v2 };

struct GidEntry {
    int index;
    ibv_gid gid;
    GidType type;
    unsigned interface; // RoCE: the network interface that it belongs to; 0: unknown

    bool is_link_local() const;                                         // fe80::/10
    uint64_t subnet_prefix() const { return gid.global.subnet_prefix; } // network byte order
};

// The best one with which the kernel makes an address handle from the port to itself; of this
// index, if one is given. InfiniBand: the lowest index. RoCE: version 2 before 1 (routable, the one
// switches are configured for), then an IPv4 address, then a global IPv6 one, then a link-local
// one; the lowest index among equals. Nothing if there is none: reason then says why, "no GID".
std::optional<GidEntry> choose_gid(ibv_pd* pd, const Port& port, std::optional<unsigned long> index,
                                   std::string* reason);

bool is_ipv4_mapped(const uint8_t (&gid)[sizeof(ibv_gid)]); // ::ffff:a.b.c.d
std::string to_string(const ibv_gid& gid);
const char* to_string(GidType type);

} // namespace gdr::verbs
