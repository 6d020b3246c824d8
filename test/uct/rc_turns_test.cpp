// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a turn of UCX's asynchronous thread does at most, and what it keeps. This program has the
// turns itself.
#include "rc_stranger.hpp"

#include "rc/connect/accepted_connections.hpp"
#include "rc/connect/address_handles.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <dlfcn.h>
#include <poll.h>

extern "C" {
#include <ucs/async/async_fwd.h>
}

namespace rc_test {
namespace {

using namespace std::chrono_literals;

struct Handler {
    ucs_async_event_cb_t call;
    void* arg;
};

std::map<int, Handler> handlers;
std::atomic<size_t> address_handles{0}; // that there are
bool no_threads = false;                // the system starts none

using Descriptors = std::set<int>;

// Those that somebody has had since the others.
Descriptors since(const Descriptors& others)
{
    Descriptors all;
    for (const auto& [fd, handler] : handlers) {
        if (!others.contains(fd)) {
            all.insert(fd);
        }
    }
    return all;
}

// One call for each descriptor that is readable; these. The newest is called first: a timer before
// the channel.
std::vector<int> turn(const Descriptors& whose = since({}))
{
    std::vector<pollfd> descriptors;
    for (auto fd = whose.rbegin(); fd != whose.rend(); ++fd) {
        descriptors.push_back({*fd, POLLIN, 0});
    }
    poll(descriptors.data(), descriptors.size(), 0);
    std::vector<int> called;
    for (const pollfd& descriptor : descriptors) {
        auto handler = handlers.find(descriptor.fd);
        if ((descriptor.revents & POLLIN) && handler != handlers.end()) {
            handler->second.call(descriptor.fd, UCS_EVENT_SET_EVREAD, handler->second.arg);
            called.push_back(descriptor.fd);
        }
    }
    return called;
}

unsigned answers(Stranger& stranger)
{
    unsigned count = 0;
    while (stranger.receive(0.02)) {
        ++count;
    }
    return count;
}

TEST(Turn, HandlesSoManyDatagrams)
{
    constexpr unsigned kMost = 64; // and then others have theirs
    constexpr unsigned kFlood = 200;
    Node node;
    const Address address = node.address();
    const HashKey key = parse<IfaceAddress>(address.iface).key;
    Stranger stranger;
    const auto ask = [&](unsigned connection) {
        stranger.send(address, stranger.packet(address, PacketType::farewell, connection), key);
    };
    ask(0); // from here on its address is known
    for (unsigned i = 0; i < 500 && answers(stranger) == 0; ++i) {
        turn();
    }
    while (!turn().empty()) {
        std::this_thread::sleep_for(2ms);
    }
    for (unsigned i = 0; i < kFlood; ++i) {
        ask(i);
    }
    finish_posted();
    std::this_thread::sleep_for(20ms);
    const std::vector<int> channel = turn();
    ASSERT_EQ(channel.size(), 1u);
    unsigned all = answers(stranger), turns = 1;
    EXPECT_LE(all, kMost);
    for (; turns < 100 && all < kFlood; ++turns) {
        const bool by_channel = turn() == channel;
        // softmlx5 sees receives a little after they were posted again: what had waited for them
        // arrives later.
        EXPECT_TRUE(!by_channel || on_softmlx5()) << "goes on at once, not when its timer says so";
        all += answers(stranger);
    }
    EXPECT_GE(turns, (kFlood + kMost - 1) / kMost);
    EXPECT_EQ(all, kFlood);
}

// Whether a message does; everybody has turns meanwhile.
bool arrives(Node& from, uct_ep_h ep, Node& to)
{
    bool sent = false;
    return wait_until({&from, &to},
                      [&] {
                          turn();
                          sent = sent || send_bcopy(ep, 5, "message") > 0;
                          return to.received_count > 0 || !from.failures.empty();
                      }) &&
           from.failures.empty();
}

// Interfaces that have address handles for each other: each packet is sent at once.
struct Pair {
    explicit Pair(const char* patience)
        : sender(Variables{{"CONNECT_TIMEOUT", patience}}), of_sender(since({})),
          of_receiver((receiver.emplace(), since(of_sender)))
    {
        EXPECT_TRUE(arrives(*receiver, Endpoint(*receiver, sender), sender));
    }

    Node sender;
    const Descriptors of_sender;
    std::optional<Node> receiver;
    const Descriptors of_receiver;
};

// What nobody could answer meanwhile, is asked again.
TEST(Turn, ComesLateWithoutHarm)
{
    Pair pair("200ms");
    const Endpoint ep(pair.sender, *pair.receiver);
    turn(pair.of_sender); // it asks
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(arrives(pair.sender, ep, *pair.receiver));
}

TEST(Turn, ReadsAnAnswerBeforeItGivesUp)
{
    Pair pair("50ms"); // as long as it waits after its first request
    const Endpoint ep(pair.sender, *pair.receiver);
    turn(pair.of_sender);
    EXPECT_TRUE(wait_until({}, [&] { return !turn(pair.of_receiver).empty(); }));
    finish_posted(); // the answer has arrived
    std::this_thread::sleep_for(100ms);
    turn(pair.of_sender);
    EXPECT_TRUE(arrives(pair.sender, ep, *pair.receiver));
}

// Address handles are made by threads, of which a system may refuse more.
TEST(Turn, WaitsUntilThereIsAThread)
{
    Node sender(Variables{{"CONNECT_TIMEOUT", "10s"}}), receiver;
    no_threads = true;
    const Endpoint ep(sender, receiver);
    for (const auto until = std::chrono::steady_clock::now() + 300ms;
         std::chrono::steady_clock::now() < until;) {
        turn();
    }
    no_threads = false;
    EXPECT_TRUE(arrives(sender, ep, receiver));
}

TEST(Turn, KeepsTheAddressHandlesUsedLast)
{
    verbs::Device device(emulated_hca(0));
    verbs::ProtectionDomain pd(ibv_alloc_pd(device.context()));
    verbs::Path path{};
    path.port = 1;
    AsyncTasks tasks;
    {
        AddressHandles handles(pd.get(), path, tasks);
        const auto destination = [](size_t lid) {
            verbs::Destination to{};
            to.lid = static_cast<uint16_t>(1 + lid);
            return to;
        };
        constexpr size_t kMore = 50;
        for (size_t i = 0; i < AddressHandles::kMost + kMore; ++i) {
            bool made = false;
            handles.with(destination(i), [&](ibv_ah*) { made = true; });
            for (const auto until = std::chrono::steady_clock::now() + 10s;
                 !made && std::chrono::steady_clock::now() < until;) {
                tasks.run();
                std::this_thread::yield();
            }
            ASSERT_TRUE(made);
            ASSERT_NE(handles.find(destination(0)), nullptr) << "the one used last is gone";
        }
        EXPECT_EQ(address_handles, AddressHandles::kMost);
        for (size_t i = 1; i <= kMore; ++i) {
            EXPECT_EQ(handles.find(destination(i)), nullptr);
        }
        EXPECT_NE(handles.find(destination(kMore + 1)), nullptr);
    }
    EXPECT_EQ(address_handles, 0u);
}

TEST(Turn, AcceptsSoManyOfAPeer)
{
    AcceptedConnections connections(5, 3, 1s);
    const auto add = [&](uint64_t peer, uint64_t connection) {
        AcceptedConnection accepted{};
        accepted.name = {peer, connection};
        connections.add(std::move(accepted));
    };
    for (uint64_t connection = 0; connection < 3; ++connection) {
        EXPECT_EQ(connections.full(1, 0), nullptr);
        add(1, connection);
    }
    EXPECT_STREQ(connections.full(1, 0), "UCX_GDR_RC_MAX_ACCEPTED_OF_PEER");
    EXPECT_EQ(connections.full(2, 1), nullptr) << "another peer's";
    EXPECT_STREQ(connections.full(2, 2), "UCX_GDR_RC_MAX_ACCEPTED") << "those that end count";
    connections.remove({1, 0});
    EXPECT_EQ(connections.full(1, 0), nullptr);
    add(1, 3);
    add(2, 0);
    add(2, 1);
    EXPECT_STREQ(connections.full(3, 0), "UCX_GDR_RC_MAX_ACCEPTED");
    connections.remove_all(1);
    EXPECT_EQ(connections.full(1, 0), nullptr);
}

} // namespace
} // namespace rc_test

// Of the C library, libibverbs and libucs, in front of them.
extern "C" {

#pragma GCC visibility push(default)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument)
{
    static const auto original =
        reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return rc_test::no_threads ? EAGAIN : original(thread, attributes, run, argument);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* vector)
{
    static const auto original =
        reinterpret_cast<ibv_ah* (*)(ibv_pd*, ibv_ah_attr*)>(dlsym(RTLD_NEXT, "ibv_create_ah"));
    ibv_ah* handle = original(pd, vector);
    rc_test::address_handles += handle != nullptr;
    return handle;
}

int ibv_destroy_ah(ibv_ah* handle)
{
    static const auto original =
        reinterpret_cast<int (*)(ibv_ah*)>(dlsym(RTLD_NEXT, "ibv_destroy_ah"));
    --rc_test::address_handles;
    return original(handle);
}

ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t, int fd, ucs_event_set_types_t,
                                         ucs_async_event_cb_t call, void* arg, ucs_async_context_t*)
{
    rc_test::handlers[fd] = {call, arg};
    return UCS_OK;
}

ucs_status_t ucs_async_remove_handler(int id, int sync)
{
    static const auto original =
        reinterpret_cast<ucs_status_t (*)(int, int)>(dlsym(RTLD_NEXT, "ucs_async_remove_handler"));
    return rc_test::handlers.erase(id) > 0 ? UCS_OK : original(id, sync);
}

#pragma GCC visibility pop
}
