// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Asks the kernel by netlink.
#include "verbs/route.hpp"

#include <cerrno>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gdr::verbs {
namespace {

constexpr size_t kIpv4 = 4, kIpv4Offset = 12; // of a GID

struct Question {
    nlmsghdr header{};
    rtmsg route{};
    char attributes[3 * RTA_SPACE(sizeof(ibv_gid))]{};

    void add(unsigned short type, const void* data, size_t length)
    {
        auto* attribute = reinterpret_cast<rtattr*>(reinterpret_cast<char*>(this) +
                                                    NLMSG_ALIGN(header.nlmsg_len));
        attribute->rta_type = type;
        attribute->rta_len = static_cast<unsigned short>(RTA_LENGTH(length));
        std::memcpy(RTA_DATA(attribute), data, length);
        header.nlmsg_len = NLMSG_ALIGN(header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
    }
};

Question question(const GidEntry& from, const ibv_gid& to)
{
    const bool ipv4 = is_ipv4_mapped(to.raw);
    const size_t offset = ipv4 ? kIpv4Offset : 0;
    const size_t length = ipv4 ? kIpv4 : sizeof(to);
    Question result;
    result.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
    result.header.nlmsg_type = RTM_GETROUTE;
    result.header.nlmsg_flags = NLM_F_REQUEST;
    result.route.rtm_family = ipv4 ? AF_INET : AF_INET6;
    result.route.rtm_dst_len = result.route.rtm_src_len = static_cast<unsigned char>(length * 8);
    // Without this flag the kernel treats an IPv4 address that has no route by this interface as a
    // neighbour.
    result.route.rtm_flags = ipv4 ? RTM_F_FIB_MATCH : 0;
    result.add(RTA_DST, to.raw + offset, length);
    result.add(RTA_SRC, from.gid.raw + offset, length); // policy rules may choose routes by source
    result.add(RTA_OIF, &from.interface, sizeof(from.interface));
    return result;
}

// The kernel prefers routes by the requested interface, but for IPv6 it may return one by another
// interface.
bool leads_elsewhere(const nlmsghdr& answer, unsigned interface)
{
    const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(&answer));
    auto length = static_cast<int>(RTM_PAYLOAD(&answer));
    for (const rtattr* attribute = RTM_RTA(route); RTA_OK(attribute, length);
         attribute = RTA_NEXT(attribute, length)) {
        if (attribute->rta_type == RTA_OIF) {
            return std::memcmp(RTA_DATA(attribute), &interface, sizeof(interface)) != 0;
        }
    }
    return false; // several next hops by the requested interface
}

Route ask(const Question& question, unsigned interface)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return Route::unknown;
    }
    alignas(nlmsghdr) char data[8192];
    const bool asked = send(fd, &question, question.header.nlmsg_len, 0) >= 0;
    const ssize_t length = asked ? recv(fd, data, sizeof(data), 0) : -1;
    close(fd);
    const auto& answer = *reinterpret_cast<const nlmsghdr*>(data);
    if (length < 0 || !NLMSG_OK(&answer, static_cast<size_t>(length))) {
        return Route::unknown;
    }
    if (answer.nlmsg_type != NLMSG_ERROR) {
        return leads_elsewhere(answer, interface) ? Route::none : Route::exists;
    }
    switch (-static_cast<const nlmsgerr*>(NLMSG_DATA(&answer))->error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EACCES: // a prohibiting route
        return Route::none;
    default:
        return Route::unknown;
    }
}

} // namespace

Route find_route(const GidEntry& from, const ibv_gid& to)
{
    const GidEntry peer{0, to, from.type, 0};
    if (from.interface == 0 || from.is_link_local() || peer.is_link_local() ||
        is_ipv4_mapped(from.gid.raw) != is_ipv4_mapped(to.raw)) {
        return Route::unknown;
    }
    if (std::memcmp(&from.gid, &to, sizeof(to)) == 0) {
        return Route::exists;
    }
    return ask(question(from, to), from.interface);
}

} // namespace gdr::verbs
