// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// DEVX on softmlx5: objects made by commands in the device's own format, and what bad commands get.
#include "softmlx5_devx_fixture.hpp"

namespace {

TEST_F(Devx, TellsItsCapabilities)
{
    const Answer answer = general(Command(kQueryHcaCap, 16).put(4, 1)); // of now, general ones
    ASSERT_TRUE(answer.is_ok());
    const auto word = [&answer](unsigned bit) { return answer.get(16 + bit / 8); };
    EXPECT_EQ(word(0x1c0) >> 24 & 0x1f, 30u) << "log_max_msg";
    EXPECT_EQ(word(0x200) >> 31, 1u) << "compact_address_vector";
    EXPECT_EQ(word(0x200) >> 5 & 1, 1u) << "dct";
    EXPECT_NE(word(0x380) >> 24 & 0x1f, 0u) << "log_max_rmp";
    EXPECT_EQ(word(0x100) >> 23 & 1, 1u) << "fixed_buffer_size: keys of lists";
    EXPECT_EQ(word(0x100) >> 24, 1u) << "max_indirection: not of lists";
    EXPECT_TRUE(general(Command(kQueryHcaCap, 16).put(4, 3 << 1 | 1)).is_ok()) << "atomics";
    EXPECT_TRUE(general(Command(kQueryLag, 16)).is_ok());
}

TEST_F(Devx, CarriesAMessage)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    ASSERT_TRUE(cq.is_ok());
    ASSERT_TRUE(rmp.is_ok());
    EXPECT_NE(rmp.number(), 0u) << "UCX takes it for none";
    const Answer qp = create_connected(cq, rmp);

    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    ASSERT_EQ(subscribe(channel, cq.handle, 0, 77), 0);
    at<std::uint32_t>(kRecords + 4) = htobe32(1u << 28); // armed: at the next completion

    std::vector<unsigned char> buffer(4096);
    ibv_mr* const mr = ibv_reg_mr(device.pd, buffer.data(), buffer.size(), kAllAccess);
    ASSERT_NE(mr, nullptr);
    const auto address = reinterpret_cast<std::uint64_t>(buffer.data());
    fill(buffer.data(), 100, 1);
    at<mlx5_wqe_data_seg>(kRmp + 16) = {htobe32(1000), htobe32(mr->lkey), htobe64(address + 1000)};
    __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(1), __ATOMIC_RELEASE);
    auto& control = at<mlx5_wqe_ctrl_seg>(kSendQueue);
    control.opmod_idx_opcode = htobe32(MLX5_OPCODE_SEND);
    control.qpn_ds = htobe32(qp.number() << 8 | 2);
    control.fm_ce_se = 8;
    at<mlx5_wqe_data_seg>(kSendQueue + 16) = {htobe32(100), htobe32(mr->lkey), htobe64(address)};
    __atomic_store_n(&at<std::uint32_t>(kRecords + 64 + 4), htobe32(1), __ATOMIC_RELEASE);

    EXPECT_EQ(next_cookie(channel), 77u);
    for (int i = 0; i < 5000 && at<mlx5_cqe64>(kCq + 64).sop_drop_qpn == 0; ++i) {
        usleep(1000);
    }
    EXPECT_TRUE(is_filled(buffer.data() + 1000, 100, 1));
    for (const std::size_t entry : {kCq, kCq + 64}) {
        EXPECT_EQ(be32toh(at<mlx5_cqe64>(entry).srqn_uidx), 0x123456u);
        EXPECT_EQ(be32toh(at<mlx5_cqe64>(entry).sop_drop_qpn) & 0xffffff, qp.number());
    }

    const Answer found = query(qp.handle, Command(kQueryQp, 16).put(8, qp.number()));
    ASSERT_TRUE(found.is_ok());
    EXPECT_EQ(found.get(24) >> 28, 3u) << "RTS";
    EXPECT_EQ(found.get(24 + 20) & 0xffffff, qp.number());

    EXPECT_EQ(deregister(umem), EBUSY);
    EXPECT_EQ(destroy(cq.handle), EBUSY);
    EXPECT_EQ(destroy(rmp.handle), EBUSY);
    EXPECT_EQ(destroy(qp.handle), 0);
    EXPECT_EQ(destroy(rmp.handle), 0);
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_EQ(deregister(umem), 0);
    EXPECT_EQ(close(channel), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Devx, CompletesWhatADestroyedQpHasDone)
{
    // More than the adapter collects in one look. UCX's rings of receives end where one is missing.
    constexpr unsigned messages = 30;
    for (int round = 0; round < 20; ++round) {
        const Answer cq = create(cq_command().put(28, 6u << 24));            // 64 entries
        const Answer rmp = create(rmp_command().put(80 + 32, 5u << 16 | 5)); // 32
        const Answer qp =
            create(qp_command(cq.number(), rmp.number()).put(24 + 8, 5u << 11)); // 32 blocks
        ASSERT_TRUE(qp.is_ok());
        for (const Command& change : connection(qp.number())) {
            ASSERT_TRUE(modify(qp.handle, change).is_ok());
        }
        for (unsigned i = 0; i < 64; ++i) {
            at<mlx5_cqe64>(kCq + 64 * i).op_own = MLX5_CQE_INVALID << 4;
        }
        for (unsigned i = 0; i < messages; ++i) {
            auto& control = at<mlx5_wqe_ctrl_seg>(kSendQueue + 64 * i);
            control = {};
            control.opmod_idx_opcode = htobe32(i << 8 | MLX5_OPCODE_SEND);
            control.qpn_ds = htobe32(qp.number() << 8 | 1);
            control.fm_ce_se = 8;
        }
        __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(messages), __ATOMIC_RELEASE);
        __atomic_store_n(&at<std::uint32_t>(kRecords + 64 + 4), htobe32(messages),
                         __ATOMIC_RELEASE);
        EXPECT_EQ(destroy(qp.handle), 0);
        unsigned completions = 0;
        for (unsigned i = 0; i < 64; ++i) {
            completions += at<mlx5_cqe64>(kCq + 64 * i).op_own >> 4 != MLX5_CQE_INVALID ? 1 : 0;
        }
        EXPECT_EQ(completions, 2 * messages);
        EXPECT_EQ(destroy(rmp.handle), 0);
        EXPECT_EQ(destroy(cq.handle), 0);
        std::memset(memory.data() + kRecords, 0, 256);
    }
}

TEST_F(Devx, ExecutesAfterAReset)
{
    // UCX resets queue pairs, and writes the record when it posts again, from the beginning.
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    const Answer qp = create_connected(cq, rmp);
    for (unsigned i = 0; i < 2; ++i) {
        auto& control = at<mlx5_wqe_ctrl_seg>(kSendQueue);
        control = {};
        control.opmod_idx_opcode = htobe32(MLX5_OPCODE_SEND);
        control.qpn_ds = htobe32(qp.number() << 8 | 1);
        control.fm_ce_se = 8;
        auto& entry = at<mlx5_cqe64>(kCq + 64 * (2 * i + 1));
        entry.op_own = MLX5_CQE_INVALID << 4;
        __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(i + 1), __ATOMIC_RELEASE);
        __atomic_store_n(&at<std::uint32_t>(kRecords + 64 + 4), htobe32(1), __ATOMIC_RELEASE);
        for (int j = 0; j < 5000 && entry.op_own >> 4 == MLX5_CQE_INVALID; ++j) {
            usleep(1000);
        }
        EXPECT_NE(entry.op_own >> 4, MLX5_CQE_INVALID);
        EXPECT_LT(entry.op_own >> 4, MLX5_CQE_REQ_ERR);
        EXPECT_TRUE(modify(qp.handle, Command(k2Rst, 16).put(8, qp.number())).is_ok());
        control = {};
        for (const Command& change : connection(qp.number())) {
            EXPECT_TRUE(modify(qp.handle, change).is_ok());
        }
        usleep(1000); // in which nothing is executed
    }
    const Answer found = query(qp.handle, Command(kQueryQp, 16).put(8, qp.number()));
    EXPECT_EQ(found.get(24) >> 28, 3u) << "RTS";
    EXPECT_EQ(destroy(qp.handle), 0);
    EXPECT_EQ(destroy(rmp.handle), 0);
    EXPECT_EQ(destroy(cq.handle), 0);
}

TEST_F(Devx, TellsOfTheLastReceive)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    const Answer qp = create_connected(cq, rmp);
    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    EXPECT_EQ(subscribe(channel, qp.handle, 0x13, 5), 0);
    EXPECT_TRUE(modify(qp.handle, Command(k2Err, 16).put(8, qp.number())).is_ok());
    EXPECT_EQ(next_cookie(channel), 5u);

    // A channel that nobody reads any more is no harm.
    const Answer other = create_connected(cq, rmp);
    EXPECT_EQ(subscribe(channel, other.handle, 0x13, 6), 0);
    EXPECT_EQ(close(channel), 0);
    EXPECT_TRUE(modify(other.handle, Command(k2Err, 16).put(8, other.number())).is_ok());
    usleep(50'000);
    for (const Answer& object : {other, qp, rmp, cq}) {
        EXPECT_EQ(destroy(object.handle), 0);
    }
}

TEST_F(Devx, BadCommandsGetAStatus)
{
    EXPECT_EQ(general(Command(kQueryHcaCap, 8)).error, EINVAL) << "not even an opcode's";
    EXPECT_TRUE(general(Command(static_cast<Opcode>(0xeee), 16)).is(kBadOperation));
    EXPECT_TRUE(general(Command(kCreateCq, 272)).is(kBadOperation)) << "no command of this method";
    EXPECT_TRUE(create(Command(kQueryLag, 16)).is(kBadOperation));
    for (const Opcode opcode : {kCreateCq, kCreateQp, kCreateRmp, kCreateDct}) {
        EXPECT_TRUE(create(Command(opcode, 16)).is(kBadInputLength)) << opcode;
    }
}

TEST_F(Devx, ForeignObjectsGetAStatus)
{
    const Answer cq = create(cq_command());
    ASSERT_TRUE(cq.is_ok());
    EXPECT_TRUE(create(qp_command(999, 0)).is(kBadResource)) << "no such CQ";
    EXPECT_TRUE(create(qp_command(cq.number(), 999)).is(kBadResource)) << "no such RMP";
    EXPECT_TRUE(create(qp_command(cq.number(), 0).put(28, 0xfff000)).is(kBadResource)) << "PD";
    EXPECT_TRUE(create(qp_command(cq.number(), 0, 3)).is(kBadParameter)) << "XRC";
    EXPECT_TRUE(create(cq_command().put(16, 1u << 20)).is(kBadParameter)) << "collapsed";
    // The last entry would be behind the registered memory, in memory of the program all the same.
    EXPECT_EQ(create(cq_command().put(84, kRmp + 3136)).get(4), 5u);
    EXPECT_TRUE(create(cq_command().put(84, 1)).is(kBadParameter)) << "at an odd place";
    EXPECT_TRUE(create(cq_command().put(88, 999)).is(kBadParameter)) << "of no memory";
    EXPECT_TRUE(create(cq_command().put(28, 31u << 24)).is(kBadParameter)) << "too large";
    EXPECT_TRUE(create(rmp_command().put(112, 0xf << 16 | 31)).is(kBadParameter));

    const Answer qp = create(qp_command(cq.number(), 0));
    ASSERT_TRUE(qp.is_ok());
    const auto change = connection(qp.number());
    EXPECT_TRUE(modify(cq.handle, change[0]).is(kBadResource)) << "a CQ is no QP";
    EXPECT_TRUE(
        modify(qp.handle, Command(kReset2Init, 272).put(8, qp.number() ^ 1)).is(kBadResource));
    EXPECT_TRUE(
        modify(qp.handle, Command(kReset2Init, 16).put(8, qp.number())).is(kBadInputLength));
    EXPECT_TRUE(modify(qp.handle, change[1]).is(kBadQpState)) << "from RESET to RTR";
    EXPECT_TRUE(modify(qp.handle, Command(kQueryQp, 16).put(8, qp.number())).is(kBadOperation));
    EXPECT_TRUE(query(qp.handle, change[0]).is(kBadOperation));
    EXPECT_TRUE(modify(qp.handle, Command(kReset2Init, 272).put(8, qp.number())).is(kBadParameter))
        << "of port 0";
    EXPECT_EQ(destroy(qp.handle), 0);
    EXPECT_EQ(destroy(qp.handle), ENOENT);
    EXPECT_TRUE(modify(qp.handle, change[0]).is(kBadResource)) << "destroyed";
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_TRUE(create(qp_command(cq.number(), 0)).is(kBadResource)) << "destroyed";
}

TEST_F(Devx, KnowsNoOtherMemoryAndEvents)
{
    EXPECT_EQ(register_umem(nullptr, 4096).error, EFAULT);
    EXPECT_EQ(register_umem(memory.data(), 0).error, EINVAL);
    EXPECT_EQ(register_umem(memory.data(), ~0ull - 4096).error, EINVAL);
    EXPECT_EQ(deregister({0, 999, 999}), ENOENT);
    EXPECT_EQ(open_channel(0), -EOPNOTSUPP) << "events with data";
    const int channel = open_channel();
    ASSERT_GE(channel, 0);
    EXPECT_EQ(subscribe(channel, 999, 0, 0), ENOENT);
    const Answer cq = create(cq_command());
    EXPECT_EQ(subscribe(channel, cq.handle, 0x13, 0), EOPNOTSUPP) << "not of a CQ";
    EXPECT_EQ(subscribe(channel + 1, cq.handle, 0, 0), EBADF);
    EXPECT_EQ(destroy(cq.handle), 0);
    EXPECT_EQ(close(channel), 0);
}

TEST_F(Devx, ObjectsMayBeLeft)
{
    const Answer cq = create(cq_command()), rmp = create(rmp_command());
    EXPECT_TRUE(cq.is_ok());
    EXPECT_EQ(subscribe(open_channel(), cq.handle, 0, 0), 0);
    EXPECT_EQ(ibv_dealloc_pd(device.pd), EBUSY);
    EXPECT_EQ(destroy(rmp.handle), 0); // the rest goes with the context
}

TEST(WithoutDevx, DISABLED_TheDeviceHasNone)
{
    Device device;
    Command command(kQueryLag, 16);
    unsigned char out[16];
    EXPECT_EQ(Method(MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER)
                  .in(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN, command.bytes.data(), command.bytes.size())
                  .out(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, out, sizeof out)
                  .call(device.context->cmd_fd),
              EPROTONOSUPPORT);
}

TEST(WithoutDevx, IfTheVariableSaysSo)
{
    EXPECT_TRUE(run_tests("WithoutDevx.DISABLED_*", {"SOFTMLX5_DEVX=n"}));
}

} // namespace
