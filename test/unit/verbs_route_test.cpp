// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/verbs: whether the kernel has a route to a RoCE peer, by the interface of a GID. The program
// runs itself in a network namespace that has two interfaces, the second one with a router.
#include "verbs/route.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs_test {
namespace {

using gdr::verbs::find_route;
using gdr::verbs::GidEntry;
using gdr::verbs::Route;

ibv_gid gid(const char* address)
{
    ibv_gid result{};
    EXPECT_EQ(inet_pton(AF_INET6, address, result.raw), 1) << address;
    return result;
}

GidEntry entry(const char* address, const char* interface)
{
    const unsigned index = *interface != '\0' ? if_nametoindex(interface) : 0;
    EXPECT_TRUE(index != 0 || *interface == '\0') << interface;
    return {0, gid(address), gdr::verbs::GidType::roce_v2, index};
}

constexpr char kInterfaces[] = "set -e\n"
                               "ip link set lo up\n"
                               "for i in 0 1; do\n"
                               "    ip link add rail$i type veth peer name switch$i\n"
                               "    ip link set switch$i up\n"
                               "    ip link set rail$i up\n"
                               "    ip addr add 10.9.$i.1/24 dev rail$i\n"
                               "    ip addr add fd09:$i::1/64 dev rail$i nodad\n"
                               "done\n"
                               "ip route add default via 10.9.1.254 dev rail1\n"
                               "ip route add default via fd09:1::fe dev rail1\n"
                               "ip route add prohibit 10.9.1.128/25\n"
                               "ip rule add from 10.9.0.1 lookup 100\n"
                               "ip route add 10.88.0.0/16 via 10.9.0.254 dev rail0 table 100\n"
                               "ip -6 rule add from fd09:0::1 lookup 100\n"
                               "ip route add fd88::/16 via fd09:0::fe dev rail0 table 100\n";

// Runs look() in a namespace with these interfaces; skips where there is none.
void in_namespace(void (*look)())
{
    const pid_t child = fork();
    if (child == 0) {
        const bool own =
            getuid() == 0 ? unshare(CLONE_NEWNET) == 0 : unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
        if (!own || std::system(kInterfaces) != 0) {
            _exit(77);
        }
        look();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        GTEST_SKIP() << "no right to make a network namespace with interfaces, or no ip";
    }
    EXPECT_EQ(status, 0);
}

TEST(Routes, OfIpv4)
{
    in_namespace([] {
        const GidEntry first = entry("::ffff:10.9.0.1", "rail0");
        const GidEntry second = entry("::ffff:10.9.1.1", "rail1");
        EXPECT_EQ(find_route(first, gid("::ffff:10.9.0.2")), Route::exists) << "the same subnet";
        EXPECT_EQ(find_route(first, first.gid), Route::exists) << "itself";
        EXPECT_EQ(find_route(first, gid("::ffff:10.9.1.2")), Route::none) << "the other rail's";
        EXPECT_EQ(find_route(first, second.gid), Route::none);
        EXPECT_EQ(find_route(first, gid("::ffff:10.77.0.1")), Route::none)
            << "the router is not there";
        EXPECT_EQ(find_route(second, gid("::ffff:10.77.0.1")), Route::exists) << "by the router";
        EXPECT_EQ(find_route(first, gid("::ffff:10.88.0.1")), Route::exists) << "by a rule";
        EXPECT_EQ(find_route(second, gid("::ffff:10.9.1.129")), Route::none) << "prohibited";
    });
}

TEST(Routes, OfIpv6)
{
    in_namespace([] {
        const GidEntry first = entry("fd09:0::1", "rail0");
        const GidEntry second = entry("fd09:1::1", "rail1");
        EXPECT_EQ(find_route(first, gid("fd09:0::2")), Route::exists);
        EXPECT_EQ(find_route(first, first.gid), Route::exists);
        EXPECT_EQ(find_route(first, gid("fd09:1::2")), Route::none);
        EXPECT_EQ(find_route(first, gid("fd77::1")), Route::none);
        EXPECT_EQ(find_route(first, gid("fd88::1")), Route::exists) << "by a rule";
        EXPECT_EQ(find_route(second, gid("fd77::1")), Route::exists);
    });
}

TEST(Routes, Unknown)
{
    in_namespace([] {
        EXPECT_EQ(find_route(entry("::ffff:10.9.0.1", ""), gid("::ffff:10.77.0.1")), Route::unknown)
            << "no interface is known";
        EXPECT_EQ(find_route(entry("fe80::1", "rail0"), gid("fe80::2")), Route::unknown)
            << "link-local";
        EXPECT_EQ(find_route(entry("::ffff:10.9.0.1", "rail0"), gid("fd09:0::2")), Route::unknown);
    });
}

} // namespace
} // namespace verbs_test
