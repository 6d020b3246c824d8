// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Attaching to multicast groups, see multicast.hpp.
#include "emu/softhca/multicast.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/ops.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace softhca {
namespace {

bool is_member(const MulticastMember& entry, Token token, std::uint32_t qp_number,
               const std::uint8_t* gid)
{
    return entry.token == token && entry.qp_number == qp_number &&
           std::memcmp(entry.gid, gid, sizeof entry.gid) == 0;
}

int check_group(const ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)
{
    const bool is_group =
        is_multicast(gid->raw) &&
        (profile_of(context_of(qp->context).device).ethernet || (lid >= 0xc000 && lid != 0xffff));
    return is_stale(qp->context) || qp->qp_type != IBV_QPT_UD || !is_group ? EINVAL : 0;
}

} // namespace

std::vector<Member> members_of(Process& self, const std::uint8_t* gid)
{
    std::vector<Member> members;
    const SharedGuard guard(self.fabric().multicast_lock, self.token());
    for (const MulticastMember& entry : self.fabric().multicast) {
        const bool in_group =
            entry.token != 0 && std::memcmp(entry.gid, gid, sizeof entry.gid) == 0;
        const auto address = in_group ? self.find_qp(entry.qp_number) : std::nullopt;
        if (address && address->token == entry.token) {
            members.push_back({*address, entry.qp_number});
        }
    }
    return members;
}

bool is_attached(Process& self, std::uint32_t qp_number)
{
    const SharedGuard guard(self.fabric().multicast_lock, self.token());
    return std::any_of(std::begin(self.fabric().multicast), std::end(self.fabric().multicast),
                       [&](const MulticastMember& entry) {
                           return entry.token == self.token() && entry.qp_number == qp_number;
                       });
}

int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)
{
    if (const int error = check_group(qp, gid, lid)) {
        return error;
    }
    Process& self = *context_of(qp->context).process;
    const SharedGuard guard(self.fabric().multicast_lock, self.token());
    MulticastMember* free = nullptr;
    for (MulticastMember& entry : self.fabric().multicast) {
        if (is_member(entry, self.token(), qp->qp_num, gid->raw)) {
            return 0;
        }
        if (free == nullptr && (entry.token == 0 || !self.alive(entry.token))) {
            free = &entry;
        }
    }
    if (free == nullptr) {
        return ENOMEM;
    }
    free->token = self.token();
    free->qp_number = qp->qp_num;
    std::memcpy(free->gid, gid->raw, sizeof free->gid);
    return 0;
}

int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid)
{
    if (const int error = check_group(qp, gid, lid)) {
        return error;
    }
    Process& self = *context_of(qp->context).process;
    const SharedGuard guard(self.fabric().multicast_lock, self.token());
    for (MulticastMember& entry : self.fabric().multicast) {
        if (is_member(entry, self.token(), qp->qp_num, gid->raw)) {
            entry = {};
            return 0;
        }
    }
    return EINVAL;
}

} // namespace softhca
