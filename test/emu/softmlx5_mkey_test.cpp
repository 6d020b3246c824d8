// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Keys of lists of keys on softmlx5 (CREATE_MKEY, KSM), as UCX makes them: for its fence, for
// atomics, and to take back the rights of peers.
#include "softmlx5_devx_fixture.hpp"

namespace {

constexpr std::uint32_t kAnyQp = 0xffffff, kKsm = 3u << 8;
enum Right : std::uint32_t {
    kLocalRead = 1u << 10,
    kLocalWrite = 1u << 11,
    kRemoteRead = 1u << 12,
    kRemoteWrite = 1u << 13,
    kAtomic = 1u << 14,
    kEveryRight = kLocalRead | kLocalWrite | kRemoteRead | kRemoteWrite | kAtomic
};

class Mkey : public Devx {
  protected:
    struct Piece {
        std::uint32_t key;
        const void* start;
    };
    static constexpr unsigned kLogPiece = 12;
    static constexpr std::size_t kPiece = 1u << kLogPiece;
    static constexpr std::uint8_t kTag = 0x5a;

    // Of pieces of this length.
    Command list_command(std::uint64_t start, std::uint32_t length, std::vector<Piece> pieces,
                         std::uint32_t rights = kEveryRight, ibv_pd* pd = nullptr)
    {
        constexpr std::size_t mkc = 16, list = 272;
        Command command(kCreateMkey, list + pieces.size() * 16);
        command.put(mkc, rights | kKsm).put(mkc + 4, kAnyQp << 8 | kTag);
        command.put(mkc + 12, number_of_pd(pd == nullptr ? device.pd : pd));
        command.put(mkc + 28, length);
        command.put(mkc + 16, static_cast<std::uint32_t>(start >> 32));
        command.put(mkc + 20, static_cast<std::uint32_t>(start));
        command.put(mkc + 52, static_cast<std::uint32_t>(pieces.size())).put(mkc + 56, kLogPiece);
        command.put(96, static_cast<std::uint32_t>(pieces.size()));
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const auto address = reinterpret_cast<std::uint64_t>(pieces[i].start);
            command.put(list + i * 16 + 4, pieces[i].key);
            command.put(list + i * 16 + 8, static_cast<std::uint32_t>(address >> 32));
            command.put(list + i * 16 + 12, static_cast<std::uint32_t>(address));
        }
        return command;
    }
    static std::uint32_t key_of(const Answer& list) { return list.number() << 8 | kTag; }

    struct Local {
        std::uint32_t key;
        std::uint64_t address;
        std::uint32_t length;
    };
    // What comes of a request with these segments on a queue pair made for it: 0 or a completion's
    // syndrome. What is sent is received by the pool, if there is one.
    template <class... Segments>
    unsigned execute(unsigned opcode, const Answer& pool, const Segments&... segments)
    {
        auto& record = at<std::uint32_t>(kRecords + 64 + 4);
        record = 0; // before the device looks at it, as every driver has it
        const Answer qp = create_connected(cq_, pool);
        constexpr unsigned parts = 1 + sizeof...(segments);
        auto& control = at<mlx5_wqe_ctrl_seg>(kSendQueue);
        control = {};
        control.opmod_idx_opcode = htobe32(opcode);
        control.qpn_ds = htobe32(qp.number() << 8 | parts);
        control.fm_ce_se = 8;
        std::size_t place = kSendQueue;
        ((at<Segments>(place += 16) = segments), ...);
        const unsigned first = completed_;
        completed_ += pool.number() == 0 ? 1 : 2;
        for (unsigned i = first; i < completed_; ++i) {
            at<mlx5_err_cqe>(kCq + 64 * i).op_own = MLX5_CQE_INVALID << 4;
        }
        __atomic_store_n(&record, htobe32((parts + 3) / 4), __ATOMIC_RELEASE); // blocks
        unsigned syndrome = 0;
        for (unsigned i = first; i < completed_; ++i) {
            auto& entry = at<mlx5_err_cqe>(kCq + 64 * i);
            const auto opcode_of_entry = [&entry] { // which is written last
                return __atomic_load_n(&entry.op_own, __ATOMIC_ACQUIRE) >> 4;
            };
            for (int j = 0; j < 5000 && opcode_of_entry() == MLX5_CQE_INVALID; ++j) {
                usleep(1000);
            }
            EXPECT_EQ(be32toh(entry.s_wqe_opcode_qpn) & 0xffffff, qp.number());
            if (opcode_of_entry() == MLX5_CQE_REQ_ERR || opcode_of_entry() == MLX5_CQE_RESP_ERR) {
                syndrome = entry.syndrome;
            }
        }
        EXPECT_EQ(destroy(qp.handle), 0);
        return syndrome;
    }
    static mlx5_wqe_data_seg data(const Local& local)
    {
        return {htobe32(local.length), htobe32(local.key), htobe64(local.address)};
    }
    static mlx5_wqe_raddr_seg raddr(std::uint32_t key, std::uint64_t address)
    {
        return {htobe64(address), htobe32(key), 0};
    }
    unsigned transfer(unsigned opcode, const Local& local, std::uint32_t key, std::uint64_t remote)
    {
        return execute(opcode, {}, raddr(key, remote), data(local));
    }

    void SetUp() override
    {
        Devx::SetUp();
        cq_ = create(cq_command());
        ASSERT_TRUE(cq_.is_ok());
        for (Memory* const memory : {&first_, &second_, &local_}) {
            memory->region = ibv_reg_mr(device.pd, memory->bytes.data(), memory->bytes.size(),
                                        IBV_ACCESS_LOCAL_WRITE);
            ASSERT_NE(memory->region, nullptr);
        }
        fill(local_.bytes.data(), kPiece, 1);
    }
    void TearDown() override
    {
        for (const Memory* const memory : {&first_, &second_, &local_}) {
            EXPECT_EQ(memory->region == nullptr ? 0 : ibv_dereg_mr(memory->region), 0);
        }
    }

    struct Memory {
        std::vector<unsigned char> bytes = std::vector<unsigned char>(2 * kPiece);
        ibv_mr* region = nullptr;

        Piece at(std::size_t offset) const { return {region->lkey, bytes.data() + offset}; }
        Local all() const
        {
            return {region->lkey, reinterpret_cast<std::uint64_t>(bytes.data()), kPiece};
        }
    };
    Memory first_, second_, local_;

  private:
    Answer cq_;
    unsigned completed_ = 0;
};

TEST_F(Mkey, NamesPiecesOfSeveralRegions)
{
    constexpr std::uint64_t start = 0x10008; // where a program has it begin
    const Answer list = create(list_command(start, 2 * kPiece, {second_.at(100), first_.at(8)}));
    ASSERT_TRUE(list.is_ok());
    constexpr std::size_t offset = kPiece - 60; // so that 60 bytes are in the first piece
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_WRITE, local_.all(), key_of(list), start + offset), 0u);
    EXPECT_EQ(std::memcmp(&second_.bytes[100 + offset], &local_.bytes[0], 60), 0);
    EXPECT_EQ(std::memcmp(&first_.bytes[8], &local_.bytes[60], kPiece - 60), 0);

    // As the memory of a local operation, from the second piece on.
    fill(&first_.bytes[8], kPiece, 2);
    const Answer other = create(list_command(0, kPiece, {local_.at(0)}, kLocalRead | kRemoteWrite));
    EXPECT_EQ(
        transfer(MLX5_OPCODE_RDMA_WRITE, {key_of(list), start + kPiece, kPiece}, key_of(other), 0),
        0u);
    EXPECT_TRUE(is_filled(local_.bytes.data(), kPiece, 2));
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(destroy(other.handle), 0);
}

TEST_F(Mkey, GrantsWhatItSays)
{
    const std::uint64_t end = kPiece;
    const Answer list = create(list_command(0, kPiece, {first_.at(0)}, kLocalRead | kRemoteRead));
    ASSERT_TRUE(list.is_ok());
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 0), 0u);
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_WRITE, local_.all(), key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 1),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR})
        << "up to a byte behind its end";
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, {local_.region->lkey, local_.all().address, 1},
                       key_of(list), end),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list) ^ 1, 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR})
        << "with another tag";
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR})
        << "destroyed";
}

TEST_F(Mkey, GrantsNoMoreThanItsRegions)
{
    ibv_mr* const region = ibv_reg_mr(device.pd, first_.bytes.data(), kPiece, 0);
    ASSERT_NE(region, nullptr);
    const Answer list = create(list_command(0, kPiece, {{region->lkey, first_.bytes.data()}}));
    ASSERT_TRUE(list.is_ok());
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 0), 0u);
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_WRITE, local_.all(), key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Mkey, EndsWithWhatItNames)
{
    // UCX has pieces reach beyond their regions: what is there, nobody gets.
    const Answer list = create(list_command(0, 2 * kPiece, {second_.at(0), first_.at(kPiece + 8)}));
    ASSERT_TRUE(list.is_ok());
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), kPiece - 8), 0u);
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), kPiece),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    const Answer nested = create(list_command(0, kPiece, {{key_of(list), nullptr}}));
    ASSERT_TRUE(nested.is_ok());
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(nested), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR})
        << "a list of lists";

    EXPECT_EQ(ibv_dereg_mr(second_.region), 0) << "its key may be in lists";
    second_.region = nullptr;
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(destroy(nested.handle), 0);
    EXPECT_EQ(destroy(list.handle), 0);
}

TEST_F(Mkey, ReachesOnlyAsManyPiecesAsARequestHas)
{
    std::vector<Piece> pieces(40, first_.at(0));
    const Answer list =
        create(list_command(0, static_cast<std::uint32_t>(40 * kPiece), std::move(pieces)));
    ASSERT_TRUE(list.is_ok());
    std::vector<unsigned char> bytes(40 * kPiece);
    ibv_mr* const region =
        ibv_reg_mr(device.pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(region, nullptr);
    fill(first_.bytes.data(), kPiece, 3);
    Local local = {region->lkey, reinterpret_cast<std::uint64_t>(bytes.data()), 30 * kPiece};
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local, key_of(list), 0), 0u);
    EXPECT_TRUE(is_filled(&bytes[29 * kPiece], kPiece, 3));
    ++local.length;
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local, key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Mkey, CountsPiecesOfAllEntries)
{
    const Answer list = create(list_command(0, 30 * kPiece, std::vector<Piece>(30, first_.at(0))));
    ASSERT_TRUE(list.is_ok());
    std::vector<unsigned char> bytes(31 * kPiece);
    ibv_mr* const region = ibv_reg_mr(device.pd, bytes.data(), bytes.size(), kAllAccess);
    ASSERT_NE(region, nullptr);
    fill(first_.bytes.data(), kPiece, 4);
    const mlx5_wqe_raddr_seg remote =
        raddr(region->rkey, reinterpret_cast<std::uint64_t>(bytes.data()));
    const auto pieces = [&list](unsigned count) {
        return data({key_of(list), 0, static_cast<std::uint32_t>(count * kPiece)});
    };
    EXPECT_EQ(execute(MLX5_OPCODE_RDMA_WRITE, {}, remote, pieces(20), pieces(10)), 0u);
    EXPECT_TRUE(is_filled(&bytes[29 * kPiece], kPiece, 4));
    EXPECT_EQ(execute(MLX5_OPCODE_RDMA_WRITE, {}, remote, pieces(20), pieces(11)),
              unsigned{MLX5_CQE_SYNDROME_LOCAL_PROT_ERR});
    EXPECT_EQ(execute(MLX5_OPCODE_RDMA_WRITE, {}, remote, pieces(30), data(local_.all())),
              unsigned{MLX5_CQE_SYNDROME_LOCAL_PROT_ERR})
        << "a region behind them";
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Mkey, ReceivesAndSends)
{
    std::vector<unsigned char> bytes(4 * kPiece);
    ibv_mr* const region =
        ibv_reg_mr(device.pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(region, nullptr);
    const Answer target = create(list_command(0, 4 * kPiece,
                                              {{region->lkey, &bytes[3 * kPiece]},
                                               {region->lkey, &bytes[2 * kPiece]},
                                               {region->lkey, &bytes[kPiece]},
                                               {region->lkey, &bytes[0]}}));
    const Answer source = create(list_command(
        0, 4 * kPiece, {local_.at(0), local_.at(0), local_.at(0), local_.at(0)}, kLocalRead));
    const Answer pool = create(rmp_command());
    ASSERT_TRUE(target.is_ok());
    ASSERT_TRUE(source.is_ok());
    ASSERT_TRUE(pool.is_ok());
    // Small enough for a slot of the receiver's, and not.
    unsigned posted = 0;
    for (const std::uint32_t length : {200u, static_cast<std::uint32_t>(4 * kPiece - 1)}) {
        at<mlx5_wqe_data_seg>(kRmp + 32 * posted + 16) =
            data({key_of(target), posted == 0 ? kPiece - 100 : 0, length});
        __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(++posted), __ATOMIC_RELEASE);
        EXPECT_EQ(execute(MLX5_OPCODE_SEND, pool, data({key_of(source), 0, length})), 0u);
        EXPECT_EQ(std::memcmp(&bytes[4 * kPiece - 100],
                              &local_.bytes[posted == 1 ? 0 : kPiece - 100], 100),
                  0);
    }
    EXPECT_EQ(std::memcmp(&bytes[0], &local_.bytes[0], kPiece - 1), 0);
    EXPECT_EQ(bytes[kPiece - 1], 0) << "a byte that was not sent";

    // A list that no receive may write to.
    at<mlx5_wqe_data_seg>(kRmp + 32 * posted + 16) = data({key_of(source), 0, 200});
    __atomic_store_n(&at<std::uint32_t>(kRecords + 128), htobe32(++posted), __ATOMIC_RELEASE);
    EXPECT_NE(execute(MLX5_OPCODE_SEND, pool, data({key_of(source), 0, 200})), 0u);
    EXPECT_EQ(destroy(pool.handle), 0);
    EXPECT_EQ(destroy(source.handle), 0);
    EXPECT_EQ(destroy(target.handle), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(Mkey, AddsAcrossPieces)
{
    constexpr std::uint64_t start = 0x10004, address = start + kPiece - 4; // which is aligned
    const std::vector<Piece> pieces = {second_.at(0), first_.at(8)};
    const Answer list = create(list_command(start, 2 * kPiece, pieces));
    const Answer no_atomics =
        create(list_command(start, 2 * kPiece, pieces, kEveryRight & ~unsigned{kAtomic}));
    ASSERT_TRUE(list.is_ok());
    ASSERT_TRUE(no_atomics.is_ok());
    auto* const low = reinterpret_cast<std::uint32_t*>(&second_.bytes[kPiece - 4]);
    auto* const high = reinterpret_cast<std::uint32_t*>(&first_.bytes[8]);
    *low = ~0u;
    *high = 7;
    const mlx5_wqe_atomic_seg one = {htobe64(1), 0};
    const mlx5_wqe_data_seg former = data({local_.region->lkey, local_.all().address, 8});
    EXPECT_EQ(execute(MLX5_OPCODE_ATOMIC_FA, {}, raddr(key_of(list), address), one, former), 0u);
    EXPECT_EQ(*low, 0u);
    EXPECT_EQ(*high, 8u);
    EXPECT_EQ(execute(MLX5_OPCODE_ATOMIC_FA, {}, raddr(key_of(no_atomics), address), one, former),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(destroy(no_atomics.handle), 0);
    EXPECT_EQ(destroy(list.handle), 0);
}

TEST_F(Mkey, BadCommandsGetAStatus)
{
    constexpr std::size_t mkc = 16;
    const Command good = list_command(0, kPiece, {first_.at(0)});
    const auto with = [&good](std::size_t at, std::uint32_t word) {
        return Command(good).put(at, word);
    };
    EXPECT_TRUE(create(Command(kCreateMkey, 16)).is(kBadInputLength));
    EXPECT_TRUE(create(with(96, 2)).is(kBadInputLength)) << "fewer keys than it says";
    EXPECT_TRUE(create(with(96, 1u << 31)).is(kBadInputLength));
    EXPECT_TRUE(create(Command(kCreateMkey, 272).put(mkc + 12, pd_number())).is(kBadParameter))
        << "of physical memory";
    EXPECT_TRUE(create(with(mkc, 1u << 30)).is(kBadParameter)) << "free, for a work request";
    EXPECT_TRUE(create(with(mkc, 1u << 26)).is(kBadParameter)) << "another access mode";
    EXPECT_TRUE(create(with(mkc, 1u << 15)).is(kBadParameter)) << "for work requests to change";
    EXPECT_TRUE(create(with(mkc + 12, 1u << 31)).is(kBadParameter)) << "all of memory";
    EXPECT_TRUE(create(with(8, 1)).is(kBadParameter)) << "with a number of its choice";
    EXPECT_TRUE(create(with(12, 1u << 30)).is(kBadParameter)) << "in a UMEM";
    EXPECT_TRUE(create(with(mkc + 28, 1)).is(kBadParameter)) << "longer than its pieces";
    EXPECT_TRUE(create(with(mkc + 12, 0xfff000)).is(kBadResource)) << "of no PD";
    EXPECT_TRUE(create(list_command(0, 0, {})).is(kBadParameter)) << "of nothing";
    EXPECT_TRUE(create(list_command(~0ull - 8, kPiece, {first_.at(0)})).is(kBadParameter))
        << "around the end";
}

TEST_F(Mkey, IsOfItsProtectionDomain)
{
    ibv_pd* const other = ibv_alloc_pd(device.context);
    ASSERT_NE(other, nullptr);
    const Answer list = create(list_command(0, kPiece, {first_.at(0)}, kEveryRight, other));
    ASSERT_TRUE(list.is_ok());
    EXPECT_EQ(transfer(MLX5_OPCODE_RDMA_READ, local_.all(), key_of(list), 0),
              unsigned{MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR});
    EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
    EXPECT_EQ(destroy(list.handle), 0);
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

} // namespace
