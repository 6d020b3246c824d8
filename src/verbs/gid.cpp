// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading and choosing GIDs.
#include "verbs/gid.hpp"

#include "verbs/error.hpp"
#include "verbs/queue_pair.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <vector>

namespace gdr::verbs {
namespace {

constexpr uint8_t kAnyHopLimit = 64;

int rank(const GidEntry& entry)
{
    const int address = is_ipv4_mapped(entry.gid.raw) ? 2 : entry.is_link_local() ? 0 : 1;
    return (entry.type == GidType::roce_v2 ? 3 : 0) + address;
}

// 0 or an errno.
int try_gid(ibv_pd* pd, const Port& port, const GidEntry& entry)
{
    const Path path{port.number, static_cast<uint8_t>(entry.index), 0, 0, kAnyHopLimit, 0};
    ibv_ah_attr vector = address_vector(
        path, {port.attributes.lid, entry.gid, port.ethernet || port.grh_required()});
    errno = 0;
    const AddressHandle handle(ibv_create_ah(pd, &vector));
    return handle ? 0 : errno != 0 ? errno : EOPNOTSUPP; // hns leaves it as it was
}

// Every GID of the port that is not zero.
std::vector<GidEntry> query_gids(ibv_context* context, const Port& port)
{
    static constexpr ibv_gid zero{};
    std::vector<GidEntry> entries;
    for (int index = 0; index < port.attributes.gid_tbl_len; ++index) {
        ibv_gid_entry entry{};
        GidType type = port.ethernet ? GidType::roce_v1 : GidType::infiniband;
        if (ibv_query_gid_ex(context, port.number, index, &entry, 0) == 0) {
            if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
                type = GidType::roce_v2;
            }
        } else if (ibv_query_gid(context, port.number, index, &entry.gid) != 0) {
            continue; // an empty slot of the table, or a device that knows no GID types
        }
        if (std::memcmp(&entry.gid, &zero, sizeof(zero)) != 0) {
            entries.push_back({index, entry.gid, type});
        }
    }
    return entries;
}

} // namespace

bool is_ipv4_mapped(const uint8_t (&gid)[sizeof(ibv_gid)])
{
    static constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid, prefix, sizeof(prefix)) == 0;
}

bool GidEntry::is_link_local() const
{
    return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

std::optional<GidEntry> choose_gid(ibv_pd* pd, const Port& port, std::optional<unsigned long> index,
                                   std::string* reason)
{
    std::vector<GidEntry> gids = query_gids(pd->context, port);
    std::erase_if(gids, [&](const GidEntry& entry) {
        return index && static_cast<unsigned long>(entry.index) != *index;
    });
    std::stable_sort(gids.begin(), gids.end(), [&](const GidEntry& a, const GidEntry& b) {
        return port.ethernet && rank(a) > rank(b);
    });
    std::string refused;
    bool unsupported = false;
    for (const GidEntry& entry : gids) {
        const int error = try_gid(pd, port, entry);
        if (error == 0) {
            return entry;
        }
        unsupported = error == EOPNOTSUPP;
        refused += (refused.empty() ? "" : ", ") + std::to_string(entry.index) + " (" +
                   errno_text(error) + ")";
    }
    *reason = gids.empty()
                  ? index ? "no GID of index " + std::to_string(*index) : "no GID"
                  : "no usable GID: no address handle can be made with that of index " + refused;
    if (!index && !unsupported) {
        *reason += " (RoCE in a container: the HCA's network interface has to be in it)";
    }
    return std::nullopt;
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
