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
#include <net/if.h>
#include <vector>

namespace gdr::verbs {
namespace {

constexpr uint8_t kAnyHopLimit = 64;

int rank(const GidEntry& entry)
{
    const int address = is_ipv4_mapped(entry.gid.raw) ? 2 : entry.is_link_local() ? 0 : 1;
    return (entry.type == GidType::roce_v2 ? 3 : 0) + address;
}

// Returns 0 or an errno.
int try_gid(ibv_pd* pd, const Port& port, const GidEntry& entry)
{
    const Path path{port.number, static_cast<uint8_t>(entry.index), 0, 0, kAnyHopLimit, 0};
    ibv_ah_attr vector = address_vector(
        path, {port.attributes.lid, entry.gid, port.ethernet || port.grh_required()});
    errno = 0;
    const AddressHandle handle(ibv_create_ah(pd, &vector));
    return handle ? 0 : errno != 0 ? errno : EOPNOTSUPP; // hns does not set errno
}

// Reads the table one entry at a time. If the library or the kernel does not know GID types, every
// entry counts as RoCE v1.
std::vector<ibv_gid_entry> query_each(ibv_context* context, const Port& port)
{
    std::vector<ibv_gid_entry> entries;
    bool typed = true;
    for (int index = 0; index < port.attributes.gid_tbl_len; ++index) {
        ibv_gid_entry entry{};
        entry.gid_index = static_cast<uint32_t>(index);
        int error = EOPNOTSUPP;
        if (typed) {
            error = ibv_query_gid_ex(context, port.number, index, &entry, 0);
            typed = error == 0 || error == ENODATA;
        }
        if (error != 0 && error != ENODATA) {
            error = ibv_query_gid(context, port.number, index, &entry.gid);
        }
        if (error == 0) {
            entries.push_back(entry);
        }
    }
    return entries;
}

// Reads the whole table in one call if libibverbs can: a table has 255 entries, and a machine 8
// HCAs. The call returns the entries of all ports, of which there are at most two.
std::vector<ibv_gid_entry> query_table(ibv_context* context, const Port& port)
{
    std::vector<ibv_gid_entry> entries(2 * static_cast<size_t>(port.attributes.gid_tbl_len));
    const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    if (count < 0) {
        return query_each(context, port);
    }
    entries.resize(static_cast<size_t>(count));
    std::erase_if(entries, [&](const auto& entry) { return entry.port_num != port.number; });
    return entries;
}

// Every GID of the port that is not zero.
std::vector<GidEntry> query_gids(ibv_context* context, const Port& port)
{
    static constexpr ibv_gid zero{};
    std::vector<GidEntry> gids;
    for (const ibv_gid_entry& entry : query_table(context, port)) {
        const GidType type = !port.ethernet                           ? GidType::infiniband
                             : entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? GidType::roce_v2
                                                                      : GidType::roce_v1;
        if (std::memcmp(&entry.gid, &zero, sizeof(zero)) != 0) {
            gids.push_back(
                {static_cast<int>(entry.gid_index), entry.gid, type, entry.ndev_ifindex});
        }
    }
    return gids;
}

// Removes the GIDs of network interfaces in other network namespaces: the table shows them, but
// queue pairs cannot use them. Returns the reason, or empty if it removed none. It removes none if
// the kernel does not show the interfaces.
std::string leave_out_foreign(std::vector<GidEntry>& gids, const Sysfs& sysfs, const Port& port)
{
    std::string foreign;
    if (!port.ethernet || !sysfs.shows_interfaces(port.number)) {
        return foreign;
    }
    std::erase_if(gids, [&](GidEntry& entry) {
        const std::string name = sysfs.interface(port.number, entry.index);
        const unsigned here = name.empty() ? 0 : if_nametoindex(name.c_str());
        if (here != 0 && (entry.interface == 0 || entry.interface == here)) {
            entry.interface = here;
            return false;
        }
        foreign += (foreign.empty() ? "that of index " : ", that of index ") +
                   std::to_string(entry.index) + " belongs to " +
                   (name.empty() ? "no interface that is up" : name);
        return true;
    });
    return foreign;
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
    const std::string foreign =
        leave_out_foreign(gids, Sysfs(pd->context->device->ibdev_path), port);
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
    if (!gids.empty()) {
        *reason = "no usable GID: no address handle can be made with that of index " + refused;
    } else if (!foreign.empty()) {
        *reason = "no GID of this network namespace (" + foreign + ")";
    } else {
        *reason = index ? "no GID of index " + std::to_string(*index) : "no GID";
    }
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
