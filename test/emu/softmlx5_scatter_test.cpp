// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short messages in completions, as ConnectX HCAs deliver them: libmlx5 copies them to the
// receive's buffers when they are polled.
#include "softhca_fixture.hpp"

#include <cstdlib>
#include <cstring>

#include <poll.h>

namespace {

class Scatter : public ::testing::Test {
  protected:
    Scatter() : channel(ibv_create_comp_channel(device.context)) {}
    ~Scatter() override
    {
        unsetenv("MLX5_CQE_SIZE");
        unsetenv("MLX5_SCATTER_TO_CQE");
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    }

    Options with_channel()
    {
        Options options;
        options.channel = channel;
        return options;
    }

    // Whether a message that has arrived is in the receive's buffer before it is polled. It must be
    // there afterwards.
    bool is_there_at_once(Endpoint& from, Endpoint& to, std::uint32_t length)
    {
        fill(from.buffer.data(), length, length);
        std::memset(to.buffer.data(), 0, length);
        EXPECT_EQ(ibv_req_notify_cq(to.cq, 0), 0);
        EXPECT_EQ(from.post_send(0, length), 0);
        EXPECT_EQ(from.next().status, IBV_WC_SUCCESS);
        pollfd event = {channel->fd, POLLIN, 0};
        EXPECT_EQ(::poll(&event, 1, 5000), 1);
        ibv_cq* cq;
        void* context;
        EXPECT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
        ibv_ack_cq_events(cq, 1);
        const bool is_there = is_filled(to.buffer.data(), length, length);
        const ibv_wc received = to.next();
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, length);
        EXPECT_TRUE(is_filled(to.buffer.data(), length, length));
        return is_there;
    }
    bool is_there_at_once(std::uint32_t length, const Options& options)
    {
        Endpoint a(device), b(device, options);
        connect(a, b);
        EXPECT_EQ(b.post_receive(0, 100), 0);
        return is_there_at_once(a, b, length);
    }

    Device device;
    ibv_comp_channel* const channel;
};

TEST_F(Scatter, ShortMessagesAreInTheCompletion)
{
    EXPECT_FALSE(is_there_at_once(1, with_channel()));
    EXPECT_FALSE(is_there_at_once(32, with_channel()));
    EXPECT_TRUE(is_there_at_once(33, with_channel()));
}

TEST_F(Scatter, LargeCompletionsHaveRoomForMore)
{
    setenv("MLX5_CQE_SIZE", "128", 1);
    EXPECT_FALSE(is_there_at_once(32, with_channel()));
    EXPECT_FALSE(is_there_at_once(64, with_channel()));
    EXPECT_TRUE(is_there_at_once(65, with_channel()));
}

TEST_F(Scatter, NotIfTheProgramDoesNotWantIt)
{
    setenv("MLX5_SCATTER_TO_CQE", "0", 1);
    EXPECT_TRUE(is_there_at_once(8, with_channel()));
}

TEST_F(Scatter, SharedReceivesToo)
{
    ibv_srq_init_attr init = {};
    init.attr = {16, 1, 0};
    ibv_srq* const srq = ibv_create_srq(device.pd, &init);
    ASSERT_NE(srq, nullptr);
    {
        Options options = with_channel();
        options.srq = srq;
        Endpoint a(device), b(device, options);
        connect(a, b);
        ibv_sge list = b.sge(0, 100);
        ibv_recv_wr receive = {0, nullptr, &list, 1};
        ibv_recv_wr* bad;
        ASSERT_EQ(ibv_post_srq_recv(srq, &receive, &bad), 0);
        EXPECT_FALSE(is_there_at_once(a, b, 32));
    }
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

} // namespace
