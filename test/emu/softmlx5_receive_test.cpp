// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Receives are there once they are posted, though the adapter of the process that posted them has
// not looked since: nothing is lost that is sent then.
#include "softhca_datagrams.hpp"

#include <unistd.h>

namespace {

constexpr unsigned kRounds = 20;
constexpr std::uint32_t kLength = 100;

// Posts a receive after a while, in which its adapter has come to rest, tells the sender at once,
// and awaits the message.
void receive(Child::Link& link, const std::function<int()>& post,
             const std::function<ibv_wc()>& next)
{
    for (unsigned round = 0; round < kRounds; ++round) {
        usleep(3000);
        ASSERT_EQ(post(), 0);
        link.put('r');
        ASSERT_EQ(next().status, IBV_WC_SUCCESS) << round;
    }
}

// Sends whenever the receiver says so.
void send(Child::Link& link, const std::function<int()>& post, const std::function<ibv_wc()>& next)
{
    for (unsigned round = 0; round < kRounds; ++round) {
        link.get<char>();
        ASSERT_EQ(post(), 0);
        ASSERT_EQ(next().status, IBV_WC_SUCCESS) << round;
    }
}

class Receives : public ::testing::TestWithParam<ibv_qp_type> {
  protected:
    Receives()
    {
        options.type = GetParam();
        options.rnr_retry = 0;
    }
    Options options;
};

TEST_P(Receives, AreThereOncePosted)
{
    Child child([this](Child::Link& link) {
        Device device;
        Endpoint b(device, options);
        meet(link, b);
        receive(
            link, [&] { return b.post_receive(0, kLength); }, [&] { return b.next(); });
    });
    Device device;
    Endpoint a(device, options);
    meet(child.link(), a);
    send(
        child.link(), [&] { return a.post_send(0, kLength); }, [&] { return a.next(); });
    child.join();
}

TEST_P(Receives, ThatAreNotPostedAreNotAwaited)
{
    Child child([this](Child::Link& link) {
        Device device;
        Endpoint b(device, options);
        meet(link, b);
        link.get<char>();
        EXPECT_EQ(b.post_receive(0, kLength), 0);
        EXPECT_TRUE(b.is_idle());
    });
    Device device;
    Endpoint a(device, options);
    meet(child.link(), a);
    ASSERT_EQ(a.post_send(0, kLength), 0);
    EXPECT_EQ(a.next().status,
              options.type == IBV_QPT_UC ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR);
    child.link().put('l');
    child.join();
}

INSTANTIATE_TEST_SUITE_P(All, Receives, ::testing::Values(IBV_QPT_UC, IBV_QPT_RC),
                         [](const auto& info) { return info.param == IBV_QPT_UC ? "Uc" : "Rc"; });

class ReceivesOfDatagrams : public ::testing::Test {
  protected:
    struct Target {
        std::uint32_t number;
        std::uint16_t lid;
    };
    // A sender's, in this process, and what it sends to that of the receiver.
    struct Sender {
        explicit Sender(Child::Link& link) : target(link.get<Target>()) {}
        ~Sender() { EXPECT_EQ(ibv_destroy_ah(ah), 0); }
        int post() { return a.post(kLength, ah, target.number, 0x11); }
        int post_to_group(ibv_ah* group) { return a.post(kLength, group, 0xffffff, 0x11); }

        Device device;
        Datagrams a{device};
        const Target target;
        ibv_ah* const ah = a.address(false, target.lid);
    };
    static void introduce(Child::Link& link, Datagrams& b)
    {
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(b.device.context, 1, &port), 0);
        link.put(Target{b.qp->qp_num, port.lid});
    }
};

TEST_F(ReceivesOfDatagrams, AreThereOncePosted)
{
    Child child([](Child::Link& link) {
        Device device;
        Datagrams b(device);
        introduce(link, b);
        receive(
            link, [&] { return b.receive(0, 1000); }, [&] { return next_of(b.cq); });
    });
    Sender sender(child.link());
    send(
        child.link(), [&] { return sender.post(); }, [&] { return next_of(sender.a.cq); });
    child.join();
}

TEST_F(ReceivesOfDatagrams, ThatAreNotPostedAreNotAwaited)
{
    Child child([](Child::Link& link) {
        Device device;
        Datagrams b(device);
        introduce(link, b);
        link.get<char>();
        EXPECT_EQ(b.receive(0, 1000), 0);
        usleep(50'000);
        ibv_wc wc;
        EXPECT_FALSE(b.poll(wc));
    });
    Sender sender(child.link());
    ASSERT_EQ(sender.post(), 0);
    EXPECT_EQ(next_of(sender.a.cq).status, IBV_WC_SUCCESS);
    child.link().put('l');
    child.join();
}

// One member of the group has no receive, and the others get theirs all the same.
TEST_F(ReceivesOfDatagrams, OfAGroupAreThereOncePosted)
{
    ibv_gid gid = {};
    gid.raw[0] = 0xff;
    gid.raw[15] = 0x77;
    Child child([gid](Child::Link& link) {
        Device device;
        Datagrams b(device), without(device);
        for (Datagrams* member : {&b, &without}) {
            ASSERT_EQ(ibv_attach_mcast(member->qp, &gid, 0xc001), 0);
        }
        introduce(link, b);
        receive(
            link, [&] { return b.receive(0, 1000); }, [&] { return next_of(b.cq); });
        ibv_wc wc;
        EXPECT_FALSE(b.poll(wc)); // one each
        for (Datagrams* member : {&b, &without}) {
            EXPECT_EQ(ibv_detach_mcast(member->qp, &gid, 0xc001), 0);
        }
    });
    Sender sender(child.link());
    ibv_ah_attr attributes = {};
    attributes.dlid = 0xc001;
    attributes.port_num = 1;
    attributes.is_global = 1;
    attributes.grh.dgid = gid;
    ibv_ah* const group = ibv_create_ah(sender.device.pd, &attributes);
    ASSERT_NE(group, nullptr);
    send(
        child.link(), [&] { return sender.post_to_group(group); },
        [&] { return next_of(sender.a.cq); });
    child.join();
    EXPECT_EQ(ibv_destroy_ah(group), 0);
}

} // namespace
