// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The GID table of a port, and the choice of the GID that addresses it.
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
    unsigned interface; // RoCE: the network interface of the GID; 0: unknown

    bool is_link_local() const;                                         // fe80::/10
    uint64_t subnet_prefix() const { return gid.global.subnet_prefix; } // network byte order
};

// Chooses the best GID with which the kernel can make an address handle from the port to itself;
// only the given index, if there is one. InfiniBand: the lowest index. RoCE: version 2 before 1 (it
// is routable, and switches are configured for it), then an IPv4 address, then a global IPv6 one,
// then a link-local one; the lowest index among equals. If there is none, reason receives the
// cause, for example "no GID".
std::optional<GidEntry> choose_gid(ibv_pd* pd, const Port& port, std::optional<unsigned long> index,
                                   std::string* reason);

bool is_ipv4_mapped(const uint8_t (&gid)[sizeof(ibv_gid)]); // ::ffff:a.b.c.d
std::string to_string(const ibv_gid& gid);
const char* to_string(GidType type);

} // namespace gdr::verbs
