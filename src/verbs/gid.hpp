// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The table of GIDs of a port, and the choice of the one that addresses it.
#pragma once

#include <infiniband/verbs.h>
#include <optional>
#include <string>
#include <vector>

namespace gdr::verbs {

enum class GidType { infiniband, roce_v1, roce_v2 };

struct GidEntry {
    int index;
    ibv_gid gid;
    GidType type;

    bool is_ipv4_mapped() const;                                        // ::ffff:a.b.c.d
    bool is_link_local() const;                                         // fe80::/10
    uint64_t subnet_prefix() const { return gid.global.subnet_prefix; } // network byte order
};

// Every GID of the port that is not zero.
std::vector<GidEntry> query_gids(ibv_context* context, uint8_t port, bool ethernet);

// InfiniBand: index 0. RoCE: version 2 before 1 (routable, the one switches are configured for),
// then an IPv4 address, then a global IPv6 one, then a link-local one; the lowest index among
// equals.
std::optional<GidEntry> choose_gid(const std::vector<GidEntry>& gids, bool ethernet);

std::string to_string(const ibv_gid& gid);
const char* to_string(GidType type);

} // namespace gdr::verbs
