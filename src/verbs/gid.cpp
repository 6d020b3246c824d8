// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading and choosing GIDs.
#include "verbs/gid.hpp"

#include <arpa/inet.h>
#include <cstring>

namespace gdr::verbs {

bool GidEntry::is_ipv4_mapped() const
{
    static constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, prefix, sizeof(prefix)) == 0;
}

bool GidEntry::is_link_local() const
{
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

std::vector<GidEntry> query_gids(ibv_context* context, uint8_t port, bool ethernet)
{
    static constexpr ibv_gid zero{};
    ibv_port_attr attributes{};
    std::vector<GidEntry> entries;

    if (ibv_query_port(context, port, &attributes) != 0) {
        return entries;
    }
    for (int index = 0; index < attributes.gid_tbl_len; ++index) {
        ibv_gid_entry entry{};
        GidType type = ethernet ? GidType::roce_v1 : GidType::infiniband;
        if (ibv_query_gid_ex(context, port, index, &entry, 0) == 0) {
            if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
                type = GidType::roce_v2;
            }
        } else if (ibv_query_gid(context, port, index, &entry.gid) != 0) {
            continue; // an empty slot of the table, or a device that knows no GID types
        }
        if (std::memcmp(&entry.gid, &zero, sizeof(zero)) != 0) {
            entries.push_back({index, entry.gid, type});
        }
    }
    return entries;
}

std::optional<GidEntry> choose_gid(const std::vector<GidEntry>& gids, bool ethernet)
{
    auto rank = [ethernet](const GidEntry& entry) {
        if (!ethernet) {
            return 0;
        }
        int address = entry.is_ipv4_mapped() ? 2 : entry.is_link_local() ? 0 : 1;
        return (entry.type == GidType::roce_v2 ? 3 : 0) + address;
    };
    std::optional<GidEntry> best;
    for (const GidEntry& entry : gids) {
        if (!best || rank(entry) > rank(*best)) {
            best = entry;
        }
    }
    return best;
}

std::string to_string(const ibv_gid& gid)
{
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
}

const char* to_string(GidType type)
{
    switch (type) {
    case GidType::roce_v1:
        return "RoCE v1";
    case GidType::roce_v2:
        return "RoCE v2";
    default:
        return "InfiniBand";
    }
}

} // namespace gdr::verbs
