// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Unreliable datagrams: addressing, the Q_Key check and the global routing header that precedes
// every datagram in the receiver's buffer; on RoCE v2 with IPv4 that is an IPv4 header in its last
// 20 bytes.
#include "emu/softhca/ud.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/multicast.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/receive.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include <arpa/inet.h>

namespace softhca {
namespace {

bool is_ipv4(const std::uint8_t* gid)
{
    static constexpr std::uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid, prefix, sizeof prefix) == 0;
}

std::uint16_t ip_checksum(const std::uint8_t* header, std::size_t length)
{
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < length; i += 2) {
        sum += static_cast<std::uint32_t>(header[i] << 8 | header[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~((sum & 0xffff) + (sum >> 16)));
}

void put16(std::uint8_t* to, std::size_t value)
{
    to[0] = static_cast<std::uint8_t>(value >> 8);
    to[1] = static_cast<std::uint8_t>(value);
}

void build_grh(std::uint8_t* grh, bool ethernet, const ibv_global_route& route,
               const std::uint8_t* source_gid, std::size_t payload)
{
    std::memset(grh, 0, kGrhSize);
    const std::size_t transport = payload + 8 + 12 + 4; // DETH, BTH, ICRC
    if (ethernet && is_ipv4(route.dgid.raw)) {
        std::uint8_t* ip = grh + 20;
        ip[0] = 0x45;
        ip[1] = route.traffic_class;
        put16(ip + 2, 20 + 8 + transport);
        ip[6] = 0x40; // do not fragment
        ip[8] = route.hop_limit;
        ip[9] = 17; // UDP
        std::memcpy(ip + 12, source_gid + 12, 4);
        std::memcpy(ip + 16, route.dgid.raw + 12, 4);
        put16(ip + 10, ip_checksum(ip, 20));
        return;
    }
    const std::uint32_t first =
        htonl(6u << 28 | std::uint32_t{route.traffic_class} << 20 | (route.flow_label & 0xfffff));
    std::memcpy(grh, &first, sizeof first);
    put16(grh + 4, transport + (ethernet ? 8 : 0));
    grh[6] = ethernet ? 17 : 0x1b; // UDP, or InfiniBand's own
    grh[7] = route.hop_limit;
    std::memcpy(grh + 8, source_gid, 16);
    std::memcpy(grh + 24, route.dgid.raw, 16);
}

// On RoCE the receiver learns from it what the header area holds: bit 3 says UDP, then 1 IPv6 or
// 2 IPv4, as the HCAs that UCX knows have it.
std::uint8_t service_level(bool ethernet, const ibv_ah_attr& ah)
{
    if (!ethernet) {
        return ah.sl;
    }
    return is_ipv4(ah.grh.dgid.raw) ? 0xa : 0x9;
}

// Whether a QP is the one, or one of those, that a datagram is for. A Q_Key with the high bit set
// stands for the sending QP's own.
bool accepts(Process& self, const QpShared& target, const QpShared& sender, const WorkRequest& wr)
{
    const std::uint32_t qkey = (wr.qkey & 0x80000000u) != 0 ? sender.qkey.load() : wr.qkey;
    return target.type == IBV_QPT_UD && target.qkey == qkey && !target.dropped.load() &&
           !is_down(self, target.device);
}

// A queue pair that a datagram goes to, and what its process had looked for (Arena::looked).
struct Target {
    Arena* arena;
    QpShared* qp;
    std::uint64_t looked;
};

std::optional<Target> find_target(Process& self, const QpShared& sender, const WorkRequest& wr,
                                  QpAddress address, std::uint32_t number)
{
    Arena* arena = self.alive(address.token) ? self.arena_of(address.token) : nullptr;
    if (arena == nullptr) {
        return std::nullopt;
    }
    QpShared& qp = arena->qp(address.index);
    if (qp.number != number || !accepts(self, qp, sender, wr)) {
        return std::nullopt;
    }
    return Target{arena, &qp, arena->looked.load(std::memory_order_acquire)};
}

// Those that take a datagram: all members of a group, or the one that it is for.
std::vector<Target> find_targets(Process& self, const QpShared& sender, const WorkRequest& wr,
                                 const ibv_ah_attr& ah, bool to_group)
{
    std::vector<Target> targets;
    if (sender.dropped.load() || is_down(self, sender.device)) {
        return targets;
    }
    if (to_group) {
        for (const Member& member : members_of(self, ah.grh.dgid.raw)) {
            if (const auto target =
                    find_target(self, sender, wr, member.address, member.qp_number)) {
                targets.push_back(*target);
            }
        }
        return targets;
    }
    static constexpr std::uint8_t no_gid[16] = {};
    const bool by_gid = ah.is_global || profile_of(sender.device).ethernet;
    const auto address = self.find_qp(wr.remote_qpn);
    const auto target =
        address ? find_target(self, sender, wr, *address, wr.remote_qpn) : std::optional<Target>();
    if (target && is_port(*target->arena, target->qp->device, by_gid ? std::uint16_t{0} : ah.dlid,
                          ah.is_global ? ah.grh.dgid.raw : no_gid)) {
        targets.push_back(*target);
    }
    return targets;
}

} // namespace

Outcome execute_ud(Process& self, QpShared& qp, const WorkRequest& wr, Wire& wire)
{
    if (wr.length > kMtu) {
        return Outcome::finished(IBV_WC_LOC_LEN_ERR);
    }
    SegmentList source;
    if (!(wr.is_inline ? inline_list(wr, source)
                       : region_list(self.arena(), qp.pd, wr.sge, wr.num_sge, 0, source))) {
        return Outcome::finished(IBV_WC_LOC_PROT_ERR);
    }
    if (!wr.is_datagram && !is_address_handle(wr.remote_address)) {
        return Outcome::finished(IBV_WC_LOC_QP_OP_ERR); // it has been overwritten or destroyed
    }
    const ibv_ah_attr& ah = reinterpret_cast<const Ah*>(wr.remote_address)->attributes;
    const bool to_group =
        wr.remote_qpn == kMulticastQp && ah.is_global && is_multicast(ah.grh.dgid.raw);
    const std::vector<Target> targets = find_targets(self, qp, wr, ah, to_group);
    for (const Target& target : targets) {
        if (may_be_unseen(target.looked, qp) && !has_receive(self, *target.arena, *target.qp)) {
            return Outcome::wait(Wait::receiver_not_ready);
        }
    }
    std::uint8_t fetched[kMtu];
    std::uint64_t device_bytes = 0;
    if (source.on_cuda) {
        if (!gather(fetched, source)) {
            return Outcome::finished(IBV_WC_LOC_PROT_ERR);
        }
        device_bytes = source.device_bytes;
        source = {};
        source.append(reinterpret_cast<std::uint64_t>(fetched), wr.length);
    }
    const bool ethernet = profile_of(qp.device).ethernet;
    std::uint8_t grh[kGrhSize] = {};
    if (ah.is_global) {
        build_grh(grh, ethernet, ah.grh, self.arena().gids[qp.device][ah.grh.sgid_index & 3],
                  wr.length);
    }
    const bool with_immediate = wr.opcode == IBV_WR_SEND_WITH_IMM;
    const Arrival arrival = {
        .opcode = IBV_WC_RECV,
        .flags = (with_immediate ? unsigned{IBV_WC_WITH_IMM} : 0u) |
                 (ah.is_global ? unsigned{IBV_WC_GRH} : 0u),
        .immediate = wr.immediate,
        .length = wr.length + kGrhSize,
        .solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0,
        .source_qp = qp.number,
        .source_lid = qp.port_lid,
        .service_level = service_level(ethernet, ah),
    };
    if (to_group || targets.empty()) {
        wire.send_nowhere(wr.length); // once, whoever listens
    } else {
        wire.send(*targets[0].arena, *targets[0].qp, wr.length);
    }
    for (const auto& [arena, target, looked] : targets) {
        const bool is_delivered =
            deliver_datagram(self, *arena, *target, arrival, grh, source, wire.ready());
        if (!is_delivered && targets.size() == 1 && may_be_unseen(looked, qp)) {
            return Outcome::wait(Wait::receiver_not_ready); // another one has taken the receive
        }
    }
    qp.bytes_from_device.fetch_add(device_bytes, std::memory_order_relaxed);
    return Outcome::finished(IBV_WC_SUCCESS);
}

} // namespace softhca
