// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What goes wrong on the RC transport: foreign and stale addresses, bad keys, peers that go,
// endpoints destroyed at any moment.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"
#include "rc/remote_key.hpp"
#include "rc/send_completions.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

namespace rc_test {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Addresses, OfOthers)
{
    Node node, other;
    EXPECT_TRUE(node.reaches(other.address()));
    EXPECT_TRUE(node.reaches(node.address()));
    Address address = other.address();
    for (std::vector<char>* part : {&address.device, &address.iface}) {
        std::vector<char> whole = *part;
        (*part)[0] ^= 1; // the tag
        EXPECT_FALSE(node.reaches(address));
        part->resize(1); // nothing may be read behind a foreign tag
        EXPECT_FALSE(node.reaches(address));
        *part = whole;
        (*part)[1] ^= 0x7f; // the version
        EXPECT_FALSE(node.reaches(address));
        *part = whole;
    }
    Address copy{
        {}, {'c', 'u', 'd', 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}; // a copy interface's, say
    copy.device = {0};
    EXPECT_FALSE(node.reaches(copy));
    EXPECT_THROW(Endpoint(node, copy), std::runtime_error);
    EXPECT_TRUE(node.failures.empty());
}

class Failure : public testing::Test {
  protected:
    Node sender, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
};

// As Soft-RoCE does it: the failure of a send that found no route is reported before READs posted
// earlier, whose data has not come. They have not succeeded, and no credit is returned twice.
TEST_F(Failure, ReportedOutOfOrder)
{
    std::string here(4096, 'h'), there(4096, 't');
    Registered local(sender, here.data(), here.size()),
        remote(receiver, there.data(), there.size());
    Endpoint ep(sender, receiver);
    ASSERT_EQ(
        retry(nodes,
              [&] { return uct_ep_put_short(ep, "x", 1, uintptr_t(there.data()), remote.rkey()); }),
        UCS_OK);
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
    gdr::rc::Endpoint& internal = gdr::rc::endpoint(ep);
    const int credits = internal.iface().credits.available();

    Completion read;
    uct_iov_t piece = local.piece(here.data(), here.size());
    ASSERT_EQ(uct_ep_get_zcopy(ep, &piece, 1, uintptr_t(there.data()), remote.rkey(), &read),
              UCS_INPROGRESS);
    ASSERT_GE(send_bcopy(ep, 5, "no route"), 0);
    const uint64_t sent = internal.last_wr_id;
    internal.fail(UCS_ERR_IO_ERROR);
    gdr::rc::handle_sent_slow(internal, sent, UCS_ERR_IO_ERROR);
    EXPECT_TRUE(read.done());
    EXPECT_EQ(read.status, UCS_ERR_IO_ERROR);

    EXPECT_TRUE(wait_until(nodes, [&] { return !internal.has_outstanding(); }));
    EXPECT_EQ(internal.iface().credits.available(), credits);
}

// What the HCA does not take leaves nothing to be done, and keeps no buffer.
TEST_F(Failure, RefusedPost)
{
    Endpoint ep(sender, receiver);
    ASSERT_TRUE(wait_until(nodes, [&] { return send_bcopy(ep, 5, std::string(1000, 'x')) >= 0; }));
    ASSERT_EQ(flush(nodes, ep), UCS_OK);
    gdr::rc::Endpoint& internal = gdr::rc::endpoint(ep);
    gdr::rc::Iface& iface = internal.iface();
    const size_t buffers = iface.buffers->available();
    const auto post_send =
        iface.poster.post_by([](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return ENOMEM; });
    EXPECT_EQ(send_bcopy(ep, 5, std::string(1000, 'x')), UCS_ERR_IO_ERROR);
    EXPECT_TRUE(internal.ops.empty());
    EXPECT_EQ(iface.buffers->available(), buffers);
    iface.poster.post_by(post_send);
}

TEST(RemoteKeys, OfOthers)
{
    using gdr::rc::PackedRemoteKey;
    gdr::mem::Region region;
    region.rkey = 0x12345678;
    region.kind = gdr::mem::MemoryKind::device;
    PackedRemoteKey good;
    gdr::rc::pack(region, &good);
    uct_rkey_t key = 0;
    ASSERT_EQ(gdr::rc::unpack(good, &key), UCS_OK);
    EXPECT_EQ(gdr::rc::verbs_rkey(key), region.rkey);
    EXPECT_NE(gdr::rc::memory_kind(key), 0u);
    // The magic number, the version, the kind of memory, what is reserved: each byte of them.
    for (size_t at = 0; at < offsetof(PackedRemoteKey, rkey); ++at) {
        PackedRemoteKey other = good;
        reinterpret_cast<uint8_t*>(&other)[at] ^= 0x42;
        EXPECT_EQ(gdr::rc::unpack(other, &key), UCS_ERR_INVALID_PARAM) << at;
    }
}

// The queue pair fails, its operations and its user are told once, and nobody else notices.
TEST_F(Failure, BadRemoteKey)
{
    uint64_t target = 0, good = 0;
    Registered key(receiver, &target, sizeof(target));
    Endpoint healthy(sender, receiver), back(receiver, sender);
    Registered good_key(receiver, &good, sizeof(good));
    for (unsigned kind = 0; kind < 4; ++kind) {
        Endpoint bad(sender, receiver);
        std::string source(4096, 'x');
        Registered source_key(sender, source.data(), source.size());
        uct_iov_t piece = source_key.piece(source.data(), source.size());
        uint64_t result = 0;
        Completion done;
        uct_rkey_t wrong = key.rkey() ^ 0x00ffff00;
        uint64_t address = reinterpret_cast<uint64_t>(&target);
        ucs_status_t status = retry(nodes, [&] {
            switch (kind) {
            case 0:
                return uct_ep_put_zcopy(bad, &piece, 1, address, wrong, &done);
            case 1:
                return uct_ep_get_zcopy(bad, &piece, 1, address + (1ull << 40), key.rkey(), &done);
            case 2:
                return uct_ep_atomic64_fetch(bad, UCT_ATOMIC_OP_ADD, 1, &result, address, wrong,
                                             &done);
            default:
                return uct_ep_atomic32_fetch(bad, UCT_ATOMIC_OP_XOR, 1,
                                             reinterpret_cast<uint32_t*>(&result), address, wrong,
                                             &done);
            }
        });
        ASSERT_EQ(status, UCS_INPROGRESS);
        for (unsigned i = 0; i < 3; ++i) { // they fail with it
            (void)uct_ep_put_zcopy(bad, &piece, 1, address, wrong, nullptr);
        }
        Completion flushed;
        (void)uct_ep_flush(bad, UCT_FLUSH_FLAG_LOCAL, &flushed);
        ASSERT_TRUE(wait_until(nodes, [&] { return done.done() && !sender.failures.empty(); }));
        EXPECT_NE(done.status, UCS_OK);
        EXPECT_FALSE(wait_until(
            nodes, [&] { return sender.failures.size() > 1; }, 0.2))
            << "told twice";
        ASSERT_EQ(sender.failures[0].first, static_cast<uct_ep_h>(bad));
        sender.failures.clear();
        EXPECT_LT(uct_ep_am_short(bad, 1, 0, nullptr, 0), 0);
        EXPECT_NE(uct_ep_am_short(bad, 1, 0, nullptr, 0), UCS_ERR_NO_RESOURCE);
    }
    // Idle until queue pairs that were retired by mistake would be gone.
    wait_until(
        nodes, [] { return false; }, 1.5);
    EXPECT_FALSE(wait_until(
        nodes,
        [&] {
            (void)uct_ep_am_short(back, 1, 1, nullptr, 0);
            (void)uct_ep_put_short(healthy, "\1", 1, reinterpret_cast<uint64_t>(&good),
                                   good_key.rkey());
            return !sender.failures.empty() || !receiver.failures.empty();
        },
        1.5));
    EXPECT_EQ(flush(nodes, healthy), UCS_OK);
    EXPECT_EQ(flush(nodes, back), UCS_OK);
    EXPECT_EQ(good, 1u);
    EXPECT_EQ(target, 0u);
}

// Whoever has the queue pair number now says nothing to those who were not given its address.
TEST_F(Failure, StaleAddress)
{
    Node impatient(Variables{{"CONNECT_TIMEOUT", "300ms"}});
    const size_t parts[] = {offsetof(gdr::rc::IfaceAddress, handshake_qkey),
                            offsetof(gdr::rc::IfaceAddress, incarnation),
                            offsetof(gdr::rc::IfaceAddress, key)};
    for (size_t part : parts) {
        impatient.failures.clear();
        Address address = receiver.address();
        address.iface[part] ^= 1;
        Endpoint ep(impatient, address);
        ASSERT_TRUE(wait_until(
            {&impatient}, [&] { return !impatient.failures.empty(); }, 5));
        EXPECT_EQ(impatient.failures.size(), 1u);
        EXPECT_EQ(impatient.failures[0].second, UCS_ERR_ENDPOINT_TIMEOUT);
    }
}

TEST(Closing, PeerThatClosed)
{
    Node sender(Variables{{"CONNECT_TIMEOUT", "500ms"}, {"TIMEOUT", "60ms"}});
    auto receiver = std::make_unique<Node>();
    Endpoint connected(sender, *receiver);
    Address address = receiver->address();
    ASSERT_EQ(retry({&sender}, [&] { return uct_ep_am_short(connected, 1, 0, nullptr, 0); }),
              UCS_OK);
    ASSERT_TRUE(
        wait_until({&sender, receiver.get()}, [&] { return receiver->received_count == 1; }));
    receiver.reset();

    Endpoint late(sender, address); // nobody answers any more
    ASSERT_TRUE(wait_until(
        {&sender}, [&] { return !sender.failures.empty(); }, 20));
    EXPECT_EQ(sender.failures[0].first, static_cast<uct_ep_h>(late));
    EXPECT_EQ(sender.failures[0].second, UCS_ERR_ENDPOINT_TIMEOUT);
    sender.failures.clear();

    auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(uct_ep_check(connected, 0, nullptr), UCS_OK);
    ASSERT_TRUE(wait_until(
        {&sender}, [&] { return !sender.failures.empty(); }, 20));
    EXPECT_LT(seconds_since(start), 10.0);
    EXPECT_EQ(sender.failures.size(), 1u);
}

TEST_F(Failure, DestroyedWithOperationsOutstanding)
{
    constexpr size_t kLength = 1 << 20;
    Buffer here(Memory::host, kLength), there(Memory::host, kLength);
    Registered here_key(sender, here), there_key(receiver, there);
    uct_iov_t piece = here_key.piece(here.data(), kLength);
    for (unsigned round = 0; round < 50; ++round) {
        Endpoint ep(sender, receiver);
        Completion done(8);
        int posted = 0;
        for (int i = 0; i < 8; ++i) {
            posted += retry(nodes, [&] {
                          return uct_ep_put_zcopy(ep, &piece, 1, there.address(), there_key.rkey(),
                                                  &done);
                      }) == UCS_INPROGRESS;
        }
        ASSERT_EQ(posted, 8);
        Completion flushed;
        (void)uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, &flushed);
        ep.destroy();
        ASSERT_TRUE(wait_until(
            nodes, [&] { return done.done(); }, 20));
    }
    Endpoint ep(sender, receiver);
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

TEST_F(Failure, CancelledFlush)
{
    Endpoint ep(sender, receiver);
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, i, nullptr, 0); }), UCS_OK);
    }
    Completion done;
    ucs_status_t status = uct_ep_flush(ep, UCT_FLUSH_FLAG_CANCEL, &done);
    ASSERT_TRUE(status == UCS_INPROGRESS || status == UCS_OK) << ucs_status_string(status);
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(wait_until(
            nodes, [&] { return done.done(); }, 20));
    }
    EXPECT_TRUE(sender.failures.empty()) << "the user asked for it";
    Endpoint unconnected(sender, receiver);
    EXPECT_EQ(uct_ep_flush(unconnected, UCT_FLUSH_FLAG_CANCEL, &done), UCS_OK);
}

// From within its own completion, and from within its error handler's progress.
struct EndsItsEndpoint : uct_completion_t {
    Endpoint* ep;
};

TEST_F(Failure, DestroyedInItsCompletion)
{
    uint64_t word = 0;
    Registered key(receiver, &word, sizeof(word));
    for (unsigned round = 0; round < 100; ++round) {
        Endpoint ep(sender, receiver);
        EndsItsEndpoint done;
        done.func = [](uct_completion_t* self) {
            static_cast<EndsItsEndpoint*>(self)->ep->destroy();
        };
        done.count = 1;
        done.status = UCS_OK;
        done.ep = &ep;
        uint64_t result = 0;
        ASSERT_EQ(retry(nodes,
                        [&] {
                            return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &result,
                                                         reinterpret_cast<uint64_t>(&word),
                                                         key.rkey(), &done);
                        }),
                  UCS_INPROGRESS);
        for (unsigned i = 0; i < round % 5; ++i) {
            ASSERT_EQ(uct_ep_am_short(ep, 1, 0, nullptr, 0), UCS_OK);
        }
        ASSERT_TRUE(wait_until(
            nodes, [&] { return done.count == 0; }, 20));
    }
    EXPECT_EQ(word, 100u);
}

TEST_F(Failure, ThousandEndpoints)
{
    for (unsigned round = 0; round < 2; ++round) {
        std::vector<std::unique_ptr<Endpoint>> eps;
        for (unsigned i = 0; i < 1000; ++i) {
            eps.push_back(std::make_unique<Endpoint>(sender, receiver));
        }
        size_t before = receiver.received_count;
        std::vector<bool> sent(eps.size());
        EXPECT_TRUE(wait_until(nodes, [&] {
            for (size_t i = 0; i < eps.size(); ++i) {
                if (!sent[i]) {
                    sent[i] = uct_ep_am_short(*eps[i], 1, i, nullptr, 0) == UCS_OK;
                }
            }
            return receiver.received_count - before == eps.size();
        })) << receiver.received_count - before;
        EXPECT_TRUE(sender.failures.empty());
    }
    // Created and gone before they are connected.
    for (unsigned i = 0; i < 500; ++i) {
        Endpoint brief(sender, receiver);
    }
    Endpoint ep(sender, receiver);
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

TEST(Closing, InterfaceWithConnectingEndpoints)
{
    for (unsigned round = 0; round < 20; ++round) {
        Node sender, receiver;
        Endpoint first(sender, receiver), second(receiver, sender), third(sender, sender);
        if (round % 2) {
            sender.progress();
        }
    }
}

} // namespace
} // namespace rc_test
