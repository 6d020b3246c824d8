// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What connecting costs and leaves behind: queue pairs of endpoints that are closed, of processes
// that are killed and of messages that break off; slow verbs, neighbours that do not resolve,
// ports that require a GRH or have unusable GIDs, and many endpoints at once beside the traffic of
// others.
#include "rc_support.hpp"

#include "rc/iface.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rc_test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void send(const std::vector<Node*>& nodes, uct_ep_h ep)
{
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
}

// ---- when

// An endpoint that nobody uses has no queue pair, here or at the peer.
class FirstUse : public testing::Test {
  protected:
    using Use = std::function<ucs_status_t(uct_ep_h ep)>;

    // Neither flushes nor fences are a use; this one is, and is done in the end.
    void expect_connection(const char* name, const Use& use)
    {
        SCOPED_TRACE(name);
        const long before = queue_pairs();
        {
            Endpoint ep(node, peer, Connect::when_used);
            EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_OK);
            EXPECT_EQ(uct_ep_fence(ep, 0), UCS_OK);
            EXPECT_EQ(uct_iface_flush(node.iface(), 0, nullptr), UCS_OK);
            wait_until(
                nodes, [] { return false; }, 0.02);
            EXPECT_EQ(queue_pairs(), before);
            ASSERT_EQ(retry(nodes, [&] { return use(ep); }), UCS_OK);
            EXPECT_EQ(flush(nodes, ep), UCS_OK);
            EXPECT_TRUE(wait_until(nodes, [&] { return queue_pairs() == before + 2; }));
        }
        EXPECT_TRUE(wait_until(nodes, [&] { return queue_pairs() == before; }));
    }

    static size_t pack(void* to, void*)
    {
        std::memset(to, 1, 8);
        return 8;
    }
    static ucs_status_t sent(ssize_t length)
    {
        return length < 0 ? static_cast<ucs_status_t>(length) : UCS_OK;
    }
    static ucs_status_t begun(ucs_status_t status)
    {
        return status == UCS_INPROGRESS ? UCS_OK : status;
    }

    Node node, peer;
    const std::vector<Node*> nodes{&node, &peer};
    Buffer local{Memory::host, 64}, remote{Memory::host, 64};
};

TEST_F(FirstUse, ByEachOperation)
{
    const Registered from(node, local), to(peer, remote);
    const uct_iov_t piece = from.piece(local.data(), 8);
    const auto at = reinterpret_cast<uint64_t>(remote.data());
    const uct_rkey_t key = to.rkey();
    const auto unpack = [](void*, const void*, size_t) {};
    uint64_t result64 = 0;
    uint32_t result32 = 0;
    expect_connection("am_short", [](uct_ep_h ep) { return uct_ep_am_short(ep, 1, 0, "", 0); });
    expect_connection("am_bcopy",
                      [](uct_ep_h ep) { return sent(uct_ep_am_bcopy(ep, 1, pack, nullptr, 0)); });
    expect_connection("am_zcopy", [&](uct_ep_h ep) {
        return begun(uct_ep_am_zcopy(ep, 1, nullptr, 0, &piece, 1, 0, nullptr));
    });
    expect_connection("put_short",
                      [&](uct_ep_h ep) { return uct_ep_put_short(ep, "", 1, at, key); });
    expect_connection("put_bcopy", [&](uct_ep_h ep) {
        return sent(uct_ep_put_bcopy(ep, pack, nullptr, at, key));
    });
    expect_connection("put_zcopy", [&](uct_ep_h ep) {
        return begun(uct_ep_put_zcopy(ep, &piece, 1, at, key, nullptr));
    });
    expect_connection("get_bcopy", [&](uct_ep_h ep) {
        return begun(uct_ep_get_bcopy(ep, unpack, nullptr, 8, at, key, nullptr));
    });
    expect_connection("get_zcopy", [&](uct_ep_h ep) {
        return begun(uct_ep_get_zcopy(ep, &piece, 1, at, key, nullptr));
    });
    expect_connection("atomic64_post", [&](uct_ep_h ep) {
        return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, at, key);
    });
    expect_connection("atomic32_post", [&](uct_ep_h ep) {
        return uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_XOR, 1, at, key);
    });
    expect_connection("atomic64_fetch", [&](uct_ep_h ep) {
        return begun(uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_AND, 1, &result64, at, key, nullptr));
    });
    expect_connection("atomic_cswap32", [&](uct_ep_h ep) {
        return begun(uct_ep_atomic_cswap32(ep, 1, 2, at, key, &result32, nullptr));
    });
    expect_connection("check", [](uct_ep_h ep) { return uct_ep_check(ep, 0, nullptr); });
}

TEST_F(FirstUse, ByARequestThatWaits)
{
    Endpoint ep(node, peer, Connect::when_used);
    Waiting waiting([&] { return uct_ep_am_short(ep, 1, 0, "", 0); });
    ASSERT_EQ(uct_ep_pending_add(ep, &waiting, 0), UCS_OK);
    EXPECT_TRUE(wait_until(nodes, [&] { return peer.received_count == 1; }));
}

// Memory is for the endpoints that are used, and the completion queue's room, too.
TEST_F(FirstUse, LeavesTheRoomToOthers)
{
    std::vector<std::unique_ptr<Endpoint>> unused;
    for (unsigned i = 0; i < 1000; ++i) {
        unused.push_back(std::make_unique<Endpoint>(node, peer, Connect::when_used));
    }
    Endpoint ep(node, peer);
    send(nodes, ep);
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
    unsigned at_once = 0;
    while (uct_ep_put_short(ep, "", 0, 0, 0) == UCS_OK && at_once < 10000) {
        ++at_once;
    }
    unused.clear();
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
    unsigned alone = 0;
    while (uct_ep_put_short(ep, "", 0, 0, 0) == UCS_OK && alone < 10000) {
        ++alone;
    }
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
    EXPECT_EQ(at_once, alone);
}

std::string to_hex(const std::vector<char>& bytes)
{
    std::string text;
    char digits[3];
    for (char byte : bytes) {
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
        text += digits;
    }
    return text;
}

std::vector<char> from_hex(const std::string& text)
{
    std::vector<char> bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

// ---- what is left behind
TEST(Connecting, ClosedEndpointsLeaveNoQueuePairs)
{
    Node sender, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    const long before = queue_pairs();
    std::vector<std::unique_ptr<Endpoint>> eps;
    for (unsigned i = 0; i < 1000; ++i) {
        eps.push_back(std::make_unique<Endpoint>(sender, receiver));
    }
    for (const auto& ep : eps) {
        send(nodes, *ep);
    }
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count == eps.size(); }));
    eps.clear();
    wait_until(
        nodes, [&] { return queue_pairs() == before; }, 10);
    EXPECT_EQ(queue_pairs() - before, 0);
}

// Connects to the address it is given, is heard, and dies.
TEST(DISABLED_Client, Dies)
{
    Node node;
    const Address address{from_hex(std::getenv("RC_TEST_DEVICE")),
                          from_hex(std::getenv("RC_TEST_IFACE"))};
    Endpoint first(node, address), second(node, address);
    for (uct_ep_h ep : {static_cast<uct_ep_h>(first), static_cast<uct_ep_h>(second)}) {
        send({&node}, ep);
        ASSERT_EQ(flush({&node}, ep), UCS_OK);
    }
    std::raise(SIGKILL);
}

TEST(Connecting, KilledClientsLeaveNoQueuePairs)
{
    Node server(Variables{{"KEEPALIVE_INTERVAL", "100ms"}, {"TIMEOUT", "4ms"}});
    const long before = queue_pairs();
    const Address address = server.address();
    constexpr unsigned kClients = 10;
    for (unsigned i = 0; i < kClients; ++i) {
        Outcome client = run_self(
            {{"RC_TEST_DEVICE", to_hex(address.device)}, {"RC_TEST_IFACE", to_hex(address.iface)}},
            {"--gtest_filter=DISABLED_Client.Dies", "--gtest_also_run_disabled_tests"});
        ASSERT_TRUE(WIFSIGNALED(client.status)) << client.text;
        ASSERT_TRUE(wait_until({&server}, [&] { return server.received_count == 2 * (i + 1); }));
    }
    wait_until(
        {&server}, [&] { return queue_pairs() == before; }, 10);
    EXPECT_EQ(queue_pairs() - before, 0);
}

// A peer that is alive and silent keeps its connection. On softmlx5 an answer takes as long as it
// takes threads to take turns.
TEST(Connecting, SilentPeersAreKept)
{
    const Variables often{{"KEEPALIVE_INTERVAL", on_softmlx5() ? "200ms" : "20ms"}};
    Node sender(often), receiver(often);
    const std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep(sender, receiver);
    send(nodes, ep);
    const long before = queue_pairs();
    wait_until(
        nodes, [] { return false; }, on_softmlx5() ? 4 : 1);
    EXPECT_EQ(queue_pairs(), before);
    EXPECT_EQ(receiver.received_count, 1u);
    send(nodes, ep);
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 2; }));
    EXPECT_TRUE(sender.failures.empty());
}

// SOFTHCA_FAULTS cuts off the first message of each of softhca0's queue pairs from the third on.
constexpr unsigned kCutOff = 60;
constexpr unsigned kReceives = 128;

TEST(DISABLED_CutOff, Messages)
{
    Node sender(Variables{}, kDevice);
    Node receiver(Variables{{"RX_QUEUE_LEN", std::to_string(kReceives)}}, kOtherDevice);
    const std::vector<Node*> nodes{&sender, &receiver};
    for (unsigned i = 0; i < kCutOff; ++i) {
        Endpoint ep(sender, receiver);
        send(nodes, ep);
        ASSERT_TRUE(wait_until(nodes, [&] {
            (void)uct_ep_check(ep, 0, nullptr);
            return sender.failures.size() == i + 1;
        }));
    }
    EXPECT_EQ(receiver.received_count, 0u);
    Endpoint good(sender, receiver);
    send(nodes, good);
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 1; }));
    wait_until(
        nodes, [] { return false; }, 2.5);
    // All the receive buffers are there: a message for each, without the receiver's doing.
    const uint64_t sent = hca_counters().sends;
    for (unsigned i = 0; i < kReceives + 64; ++i) {
        ASSERT_EQ(uct_ep_am_short(good, 1, i, nullptr, 0), UCS_OK);
    }
    usleep(20000);
    EXPECT_GT(hca_counters().sends - sent, kReceives - 32); // so many may wait to be posted
    std::printf("receives: %d\n", static_cast<int>(hca_counters().sends - sent));
}

TEST(Connecting, MessagesCutOffLeaveTheReceivesWhole)
{
    std::string rules;
    for (unsigned i = 0; i < kCutOff; ++i) {
        rules += "softhca0 qp " + std::to_string(3 + i) + " cut at 1;";
    }
    const Outcome outcome = run_self(
        {{"SOFTHCA_FAULTS", rules}, {"SOFTHCA_FABRIC", "rc_cut-" + std::to_string(getpid())}},
        {"--gtest_filter=DISABLED_CutOff.Messages", "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

// ---- stalls
// How often this thread has given up its processor to wait for something.
long waits()
{
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

// The longest time that one call took in which it waited. Others may have taken the processor from
// those that did not.
class Longest {
  public:
    template <typename Call>
    auto operator()(Call&& call)
    {
        struct Measure {
            ~Measure()
            {
                if (waits() != before) {
                    seconds = std::max(seconds, seconds_since(start));
                }
            }
            double& seconds;
            long before = waits();
            Clock::time_point start = Clock::now();
        } measure{seconds};
        return call();
    }
    double seconds = 0;
};

// SOFTHCA_FAULTS="modify 1000"
TEST(DISABLED_Stalls, SlowModify)
{
    Node sender, receiver;
    std::vector<std::unique_ptr<Endpoint>> eps;
    for (unsigned i = 0; i < 300; ++i) {
        eps.push_back(std::make_unique<Endpoint>(sender, receiver));
    }
    Longest progress;
    std::vector<bool> sent(eps.size());
    const auto start = Clock::now();
    while (receiver.received_count < eps.size() && seconds_since(start) < 60) {
        progress([&] { sender.progress(); });
        progress([&] { receiver.progress(); });
        for (size_t i = 0; i < eps.size(); ++i) {
            if (!sent[i]) {
                sent[i] = uct_ep_am_short(*eps[i], 1, i, nullptr, 0) == UCS_OK;
            }
        }
    }
    const double all = seconds_since(start);
    EXPECT_EQ(receiver.received_count, eps.size());
    // One that waits for them all takes most of the time.
    EXPECT_LT(progress.seconds, all / 4);
    std::printf("longest progress: %.3f s of %.3f s\n", progress.seconds, all);
}

// SOFTHCA_FAULTS="softhca0 unresolved 1 4000000": who waits for that neighbour waits for 4 s.
TEST(DISABLED_Stalls, UnresolvedNeighbour)
{
    constexpr double kStalled = 2;
    const Variables variables{{"CONNECT_TIMEOUT", "5s"}};
    Node node(variables), gone(variables, kOtherDevice), neighbour(variables);
    const std::vector<Node*> nodes{&node, &neighbour};
    Longest create, progress;
    std::unique_ptr<Endpoint> lost;
    create([&] { lost = std::make_unique<Endpoint>(node, gone); });
    for (unsigned i = 0; i < 5; ++i) {
        const auto start = Clock::now();
        std::unique_ptr<Endpoint> ep;
        create([&] { ep = std::make_unique<Endpoint>(node, neighbour); });
        send(nodes, *ep);
        EXPECT_LT(seconds_since(start), kStalled) << "another peer waits for the one that is gone";
        usleep(100000);
    }
    while (node.failures.empty() && create.seconds < 10) {
        progress([&] { node.progress(); });
    }
    ASSERT_EQ(node.failures.size(), 1u);
    EXPECT_EQ(node.failures[0].second, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_LT(create.seconds, kStalled);
    EXPECT_LT(progress.seconds, kStalled);
    Longest destroy;
    destroy([&] { lost.reset(); });
    EXPECT_LT(destroy.seconds, kStalled);
    std::printf("longest ep_create: %.3f s, progress: %.3f s\n", create.seconds, progress.seconds);
}

void run_with_faults(const std::string& test, const std::string& rules, const Variables& more = {})
{
    Variables environment{{"SOFTHCA_FAULTS", rules},
                          {"SOFTHCA_FABRIC", "rc_stalls-" + std::to_string(getpid())}};
    environment.insert(environment.end(), more.begin(), more.end());
    const Outcome outcome = run_self(
        environment, {"--gtest_filter=DISABLED_Stalls." + test, "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

TEST(Connecting, SlowVerbsDoNotStallTheApplication)
{
    run_with_faults("SlowModify", "modify 1000");
}

TEST(Connecting, NeighbourThatDoesNotResolveStallsNobody)
{
    ONLY_ON_SOFTHCA("softmlx5 emulates no Ethernet");
    run_with_faults("UnresolvedNeighbour", "softhca0 unresolved 1 4000000",
                    {{"SOFTHCA_LINK_LAYER", "ethernet"}});
}

// ---- what ports require
void run_on_ports(const std::string& test, const Variables& environment)
{
    Variables all{{"SOFTHCA_FABRIC", "rc_ports-" + std::to_string(getpid())}};
    all.insert(all.end(), environment.begin(), environment.end());
    const Outcome outcome =
        run_self(all, {"--gtest_filter=DISABLED_Ports." + test, "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
}

TEST(DISABLED_Ports, AllReachAll)
{
    Node first, second({}, kOtherDevice);
    const std::vector<Node*> nodes{&first, &second};
    for (Node* from : nodes) {
        for (Node* to : nodes) {
            Endpoint ep(*from, *to);
            const size_t before = to->received_count;
            send(nodes, ep);
            ASSERT_TRUE(wait_until(
                nodes, [&] { return to->received_count == before + 1; }, 10));
        }
    }
    EXPECT_TRUE(first.failures.empty() && second.failures.empty());
}

// As the ports of InfiniBand VFs: neither they nor their peers can do without.
TEST(Connecting, PortsThatRequireAGrh)
{
    for (const char* ports : {"required", "required,optional", "optional,required"}) {
        run_on_ports("AllReachAll", {{"SOFTHCA_GRH", ports}});
    }
}

// The best GID is one that the kernel does not use.
TEST(Connecting, UnusableGidsAreNotChosen)
{
    ONLY_ON_SOFTHCA("softmlx5 emulates no Ethernet");
    run_on_ports("AllReachAll", {{"SOFTHCA_FAULTS", "softhca0 unusable 1; softhca1 unusable 1"},
                                 {"SOFTHCA_LINK_LAYER", "ethernet"}});
}

// ---- many endpoints
struct Request : uct_pending_req_t {
    unsigned asked = 0;
};

TEST(Connecting, UnconnectedEndpointsAreNotAsked)
{
    Node node, other;
    Address nowhere = other.address();
    nowhere.iface[4] ^= 0x55; // the queue pair number
    std::vector<std::unique_ptr<Endpoint>> eps;
    std::vector<Request> requests(100);
    for (Request& request : requests) {
        eps.push_back(std::make_unique<Endpoint>(node, nowhere));
        request.func = [](uct_pending_req_t* self) {
            ++static_cast<Request*>(self)->asked;
            return UCS_ERR_NO_RESOURCE;
        };
        ASSERT_EQ(uct_ep_pending_add(*eps.back(), &request, 0), UCS_OK);
    }
    Endpoint self(node, node);
    for (unsigned i = 0; i < 1000; ++i) {
        send({&node}, self);
    }
    ASSERT_TRUE(wait_until({&node}, [&] { return node.received_count == 1000; }));
    unsigned asked = 0;
    for (const Request& request : requests) {
        asked += request.asked;
    }
    EXPECT_EQ(asked, 0u);
    for (const auto& ep : eps) {
        uct_ep_pending_purge(
            *ep, [](uct_pending_req_t*, void*) {}, nullptr);
    }
}

// ---- sleeping
// Another thread calls for attention by a flag and a descriptor. The flag may be seen and done with
// before the descriptor is written to: a worker that then sleeps wakes once for nothing, not for
// ever.
TEST(Connecting, LateWakeupWakesOnce)
{
    Node node;
    int fd = -1;
    ASSERT_EQ(uct_iface_event_fd_get(node.iface(), &fd), UCS_OK);
    const uint64_t one = 1;
    ASSERT_EQ(write(gdr::rc::rc_iface(node.iface()).attention.fd(), &one, sizeof(one)), 8);
    unsigned wakeups = 0;
    pollfd entry{fd, POLLIN, 0};
    for (unsigned i = 0; i < 100; ++i) {
        while (node.progress() > 0 ||
               uct_iface_event_arm(node.iface(), UCT_EVENT_RECV) == UCS_ERR_BUSY) {
        }
        wakeups += poll(&entry, 1, 0) > 0;
    }
    EXPECT_LE(wakeups, 1u);
}

} // namespace
} // namespace rc_test
