// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What is written into a ConnectX's queues, its doorbell records and its registers. That a device
// understands the entries is shown on softmlx5, which does not look at the registers.
#include "mlx5/completion_queue.hpp"
#include "mlx5/send_queue.hpp"
#include "mlx5/shared_receive_queue.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <endian.h>
#include <gtest/gtest.h>

namespace gdr::mlx5 {
namespace {

constexpr uint32_t kQp = 0x123456;
constexpr unsigned kBlocks = 8;
constexpr unsigned kRegister = 256; // of each half

struct Rings {
    alignas(64) std::array<std::byte, kBlocks * 64> ring{};
    std::array<uint32_t, 2> record{};
    alignas(64) std::array<std::byte, 2 * kRegister> doorbell{};

    mlx5dv_qp described()
    {
        mlx5dv_qp qp{};
        qp.dbrec = record.data();
        qp.sq.buf = ring.data();
        qp.sq.wqe_cnt = kBlocks;
        qp.sq.stride = 64;
        qp.bf.reg = doorbell.data();
        qp.bf.size = kRegister;
        return qp;
    }
    const std::byte* block(unsigned number) const { return &ring[number % kBlocks * 64]; }
    uint32_t posted() const { return be32toh(record[MLX5_SND_DBR]); }
};

class Send : public testing::Test {
  protected:
    explicit Send(bool own_register = true) : queue(rings.described(), kQp, own_register) {}

    int post(ibv_send_wr& wr) { return queue.post(&wr, &refused); }

    const mlx5_wqe_ctrl_seg& control(unsigned block) const
    {
        return *reinterpret_cast<const mlx5_wqe_ctrl_seg*>(rings.block(block));
    }
    unsigned segments(unsigned block) const { return be32toh(control(block).qpn_ds) & 0xff; }
    template <class Segment>
    const Segment& segment(unsigned block, unsigned number) const
    {
        return *reinterpret_cast<const Segment*>(rings.block(block + number / 4) + number % 4 * 16);
    }

    Rings rings;
    SendQueue queue;
    ibv_send_wr* refused = nullptr;
};

class SharedRegister : public Send {
  protected:
    SharedRegister() : Send(false) {}
};

ibv_send_wr write_of(ibv_sge* pieces, int count, unsigned flags)
{
    ibv_send_wr wr{};
    wr.wr_id = 77;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.sg_list = pieces;
    wr.num_sge = count;
    wr.wr.rdma.remote_addr = 0x1122334455667788;
    wr.wr.rdma.rkey = 0xabcdef01;
    return wr;
}

ibv_sge piece_of(const void* address, size_t length, uint32_t lkey = 0)
{
    return {reinterpret_cast<uint64_t>(address), static_cast<uint32_t>(length), lkey};
}

TEST_F(Send, InlineWrite)
{
    const char header[] = "headers!", payload[] = "payload";
    std::array pieces = {piece_of(header, 8), piece_of(payload, 7)};
    auto wr = write_of(pieces.data(), 2, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(be32toh(control(0).opmod_idx_opcode), uint32_t{MLX5_OPCODE_RDMA_WRITE});
    EXPECT_EQ(be32toh(control(0).qpn_ds), kQp << 8 | 4); // 4 + 15 bytes are two segments
    EXPECT_EQ(control(0).fm_ce_se, MLX5_WQE_CTRL_CQ_UPDATE);
    EXPECT_EQ(control(0).signature, 0);
    const auto& address = segment<mlx5_wqe_raddr_seg>(0, 1);
    EXPECT_EQ(be64toh(address.raddr), 0x1122334455667788u);
    EXPECT_EQ(be32toh(address.rkey), 0xabcdef01u);
    EXPECT_EQ(be32toh(segment<mlx5_wqe_inl_data_seg>(0, 2).byte_count), 15 | MLX5_INLINE_SEG);
    EXPECT_EQ(std::memcmp(&segment<char>(0, 2) + 4, "headers!payload", 15), 0);
    EXPECT_EQ(rings.posted(), 1u);
    EXPECT_EQ(queue.wr_id(0), 77u);
    EXPECT_EQ(std::memcmp(rings.doorbell.data(), rings.block(0), 64), 0) << "BlueFlame";
    EXPECT_EQ(rings.doorbell[64], std::byte{0});
}

TEST_F(Send, EmptyInlinePieceWithoutAddress)
{
    std::array pieces = {piece_of("headers!", 8), piece_of(nullptr, 0), piece_of("more", 4)};
    auto wr = write_of(pieces.data(), 3, IBV_SEND_INLINE);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(be32toh(segment<mlx5_wqe_inl_data_seg>(0, 2).byte_count), 12 | MLX5_INLINE_SEG);
    EXPECT_EQ(std::memcmp(&segment<char>(0, 2) + 4, "headers!more", 12), 0);
}

TEST_F(Send, HalvesOfTheRegisterTakeTurns)
{
    const char data[8] = "1234567";
    ibv_sge piece = piece_of(data, 8);
    auto wr = write_of(&piece, 1, IBV_SEND_INLINE);
    for (unsigned i = 0; i < 2 * kBlocks; ++i) {
        rings.doorbell = {};
        ASSERT_EQ(post(wr), 0);
        EXPECT_EQ(be32toh(control(i).opmod_idx_opcode) >> 8, i);
        EXPECT_EQ(rings.posted(), i + 1);
        EXPECT_EQ(std::memcmp(&rings.doorbell[i % 2 * kRegister], rings.block(i), 64), 0) << i;
        EXPECT_EQ(rings.doorbell[(i + 1) % 2 * kRegister], std::byte{0}) << i;
    }
}

TEST_F(SharedRegister, TakesAWordOnly)
{
    const char data[8] = "1234567";
    ibv_sge piece = piece_of(data, 8);
    auto wr = write_of(&piece, 1, IBV_SEND_INLINE);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(std::memcmp(rings.doorbell.data(), rings.block(0), 8), 0);
    EXPECT_EQ(rings.doorbell[16 + 3], std::byte{0}) << "an address is there";
}

TEST_F(Send, PiecesAndFlags)
{
    std::array pieces = {piece_of(&rings, 100, 5), piece_of(nullptr, 0, 6), piece_of(&queue, 3, 7)};
    auto wr = write_of(pieces.data(), 3, IBV_SEND_FENCE | IBV_SEND_SOLICITED);
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(segments(0), 4u) << "the empty piece is left out";
    EXPECT_EQ(control(0).fm_ce_se, MLX5_WQE_CTRL_FENCE | MLX5_WQE_CTRL_SOLICITED);
    for (unsigned i : {0, 1}) {
        const auto& data = segment<mlx5_wqe_data_seg>(0, 2 + i);
        EXPECT_EQ(be32toh(data.byte_count), pieces[2 * i].length);
        EXPECT_EQ(be32toh(data.lkey), pieces[2 * i].lkey);
        EXPECT_EQ(be64toh(data.addr), pieces[2 * i].addr);
    }
}

TEST_F(Send, MessageWithNothingButItsImmediate)
{
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = 0x01020304;
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(be32toh(control(0).opmod_idx_opcode), uint32_t{MLX5_OPCODE_SEND_IMM});
    EXPECT_EQ(control(0).imm, 0x01020304u);
    EXPECT_EQ(segments(0), 1u);
}

TEST_F(Send, Atomics)
{
    uint64_t result = 0;
    ibv_sge piece = piece_of(&result, 8, 9);
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = 0x1000;
    wr.wr.atomic.rkey = 3;
    wr.wr.atomic.compare_add = 11;
    wr.wr.atomic.swap = 12;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    ASSERT_EQ(post(wr), 0);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    ASSERT_EQ(post(wr), 0);
    EXPECT_EQ(be32toh(control(0).opmod_idx_opcode) & 0xff, uint32_t{MLX5_OPCODE_ATOMIC_FA});
    EXPECT_EQ(be32toh(control(1).opmod_idx_opcode) & 0xff, uint32_t{MLX5_OPCODE_ATOMIC_CS});
    const auto& add = segment<mlx5_wqe_atomic_seg>(0, 2);
    EXPECT_EQ(be64toh(add.swap_add), 11u);
    EXPECT_EQ(be64toh(add.compare), 0u);
    const auto& swap = segment<mlx5_wqe_atomic_seg>(1, 2);
    EXPECT_EQ(be64toh(swap.swap_add), 12u);
    EXPECT_EQ(be64toh(swap.compare), 11u);
    EXPECT_EQ(be32toh(segment<mlx5_wqe_data_seg>(1, 3).lkey), 9u);
}

TEST_F(Send, ListRingsOnce)
{
    const char data[8] = "1234567";
    ibv_sge piece = piece_of(data, 8);
    std::array list = {write_of(&piece, 1, IBV_SEND_INLINE), write_of(&piece, 1, IBV_SEND_INLINE),
                       write_of(&piece, 1, IBV_SEND_INLINE)};
    list[0].next = &list[1];
    list[1].next = &list[2];
    ASSERT_EQ(post(list[0]), 0);
    EXPECT_EQ(rings.posted(), 3u);
    EXPECT_EQ(std::memcmp(rings.doorbell.data(), rings.block(2), 8), 0);
    EXPECT_EQ(rings.doorbell[kRegister], std::byte{0});

    list[1].opcode = IBV_WR_BIND_MW;
    EXPECT_EQ(post(list[0]), EINVAL);
    EXPECT_EQ(refused, &list[1]);
    EXPECT_EQ(rings.posted(), 4u) << "the one before it is posted";
}

// Entries of three blocks: of three in turn one ends at the ring's beginning.
TEST_F(Send, GoesRoundTheRing)
{
    std::vector<char> data(3 * 64 - 32 - 4);
    std::iota(data.begin(), data.end(), 1);
    std::array pieces = {piece_of(data.data(), 50), piece_of(&data[50], data.size() - 50)};
    for (unsigned block = 0; block < 9 * kBlocks; block += 3) {
        auto wr = write_of(pieces.data(), 2, IBV_SEND_INLINE);
        wr.wr_id = block;
        ASSERT_EQ(post(wr), 0);
        ASSERT_EQ(segments(block), 12u);
        std::string written;
        for (unsigned i = 0; i < 3; ++i) {
            written.append(reinterpret_cast<const char*>(rings.block(block + i)), 64);
        }
        EXPECT_EQ(written.substr(36), std::string(data.begin(), data.end())) << block;
        EXPECT_EQ(std::memcmp(&rings.doorbell[block / 3 % 2 * kRegister], written.data(), 192), 0);
        EXPECT_EQ(queue.wr_id(static_cast<uint16_t>(block)), block);
    }
    std::array<ibv_sge, 6> many;
    for (unsigned i = 0; i < many.size(); ++i) {
        many[i] = piece_of(&data[i], i + 1, i);
    }
    for (unsigned block = 9 * kBlocks; block < 18 * kBlocks; block += 2) {
        auto wr = write_of(many.data(), static_cast<int>(many.size()), 0);
        ASSERT_EQ(post(wr), 0);
        for (unsigned i = 0; i < many.size(); ++i) {
            EXPECT_EQ(be32toh(segment<mlx5_wqe_data_seg>(block, 2 + i).lkey), i) << block;
        }
    }
}

TEST_F(Send, ShortAnswersInTheCompletion)
{
    char first[4] = {}, second[8] = {};
    std::array pieces = {piece_of(first, 3), piece_of(second, 8)};
    auto wr = write_of(pieces.data(), 2, 0);
    wr.opcode = IBV_WR_RDMA_READ;
    ASSERT_EQ(post(wr), 0);
    queue.scatter(0, "0123456789", 10);
    EXPECT_STREQ(first, "012");
    EXPECT_STREQ(second, "3456789");

    uint64_t result = 0;
    ibv_sge piece = piece_of(&result, 8);
    ibv_send_wr add{};
    add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    add.sg_list = &piece;
    add.num_sge = 1;
    ASSERT_EQ(post(add), 0);
    const uint64_t answer = 99;
    queue.scatter(1, &answer, 8);
    EXPECT_EQ(result, 99u);
}

class Receive : public testing::Test {
  protected:
    static constexpr unsigned kEntries = 4;

    explicit Receive(uint32_t stride = 32) : stride_(stride), ring(kEntries * stride)
    {
        for (unsigned i = 0; i < kEntries; ++i) {
            next(i).next_wqe_index = htobe16((i + 1) % kEntries);
        }
        mlx5dv_srq srq{};
        srq.buf = ring.data();
        srq.dbrec = &record;
        srq.stride = stride;
        srq.tail = kEntries - 1;
        queue.emplace(srq);
    }

    mlx5_wqe_srq_next_seg& next(unsigned entry)
    {
        return *reinterpret_cast<mlx5_wqe_srq_next_seg*>(&ring[entry * stride_]);
    }
    const mlx5_wqe_data_seg* pieces(unsigned entry)
    {
        return reinterpret_cast<const mlx5_wqe_data_seg*>(&next(entry) + 1);
    }
    int post(uint64_t id)
    {
        ibv_sge piece = piece_of(reinterpret_cast<void*>(id), 10, 20);
        ibv_recv_wr wr{id, nullptr, &piece, 1};
        return queue->post(&wr, &refused);
    }

    const uint32_t stride_;
    std::vector<std::byte> ring;
    uint32_t record = 0;
    std::optional<SharedReceiveQueue> queue;
    ibv_recv_wr* refused = nullptr;
};

class WideReceive : public Receive {
  protected:
    WideReceive() : Receive(64) {}
};

TEST_F(Receive, EntriesComeBackInAnyOrder)
{
    for (uint64_t id : {100, 101, 102}) {
        EXPECT_EQ(post(id), 0);
    }
    EXPECT_EQ(be32toh(record), 3u);
    EXPECT_EQ(post(103), ENOMEM) << "the last one is the end";
    EXPECT_NE(refused, nullptr);
    EXPECT_EQ(be64toh(pieces(1)->addr), 101u);
    EXPECT_EQ(be32toh(pieces(1)->byte_count), 10u);
    EXPECT_EQ(be32toh(pieces(1)->lkey), 20u);

    EXPECT_EQ(queue->take(1), 101u);
    EXPECT_EQ(queue->take(0), 100u);
    EXPECT_EQ(post(104), 0); // into entry 3, which was the end
    EXPECT_EQ(post(105), 0); // into entry 1
    EXPECT_EQ(post(106), ENOMEM);
    EXPECT_EQ(be32toh(record), 5u);
    // As the device follows them from entry 2, the last that it has seen.
    EXPECT_EQ(be16toh(next(2).next_wqe_index), 3);
    EXPECT_EQ(be16toh(next(3).next_wqe_index), 1);
    EXPECT_EQ(be64toh(pieces(3)->addr), 104u);
    EXPECT_EQ(be64toh(pieces(1)->addr), 105u);
}

TEST_F(WideReceive, PiecesEndAfterTheFirst)
{
    ASSERT_EQ(post(1), 0);
    EXPECT_EQ(be32toh(pieces(0)[1].lkey), 0x100u);
}

TEST_F(Receive, ShortMessagesInTheCompletion)
{
    char buffer[SharedReceiveQueue::kShortestReceive] = {};
    ASSERT_EQ(post(reinterpret_cast<uint64_t>(buffer)), 0);
    const char completion[32] = "message of up to thirty-one";
    queue->scatter<sizeof(completion)>(0, completion);
    EXPECT_STREQ(buffer, completion);
}

class Completions : public testing::TestWithParam<uint32_t> { // bytes of an entry
  protected:
    static constexpr unsigned kEntries = 4;

    Completions() : ring(kEntries * GetParam())
    {
        for (unsigned i = 0; i < kEntries; ++i) {
            entry(i).op_own = MLX5_CQE_INVALID << 4;
        }
        mlx5dv_cq cq{};
        cq.buf = ring.data();
        cq.dbrec = record.data();
        cq.cqe_cnt = kEntries;
        cq.cqe_size = GetParam();
        cq.cq_uar = uar.data();
        cq.cqn = 0x654321;
        queue.emplace(cq);
    }

    mlx5_cqe64& entry(unsigned number)
    {
        return *reinterpret_cast<mlx5_cqe64*>(
            &ring[(number % kEntries + 1) * GetParam() - sizeof(mlx5_cqe64)]);
    }
    void complete(unsigned number)
    {
        entry(number).op_own = static_cast<uint8_t>(MLX5_CQE_REQ << 4 | (number / kEntries % 2));
    }

    std::vector<std::byte> ring;
    std::array<uint32_t, 2> record{};
    std::array<uint64_t, 8> uar{};
    std::optional<CompletionQueue> queue;
};

TEST_P(Completions, EachIsSeenOnce)
{
    for (unsigned i = 0; i < 5 * kEntries; ++i) {
        ASSERT_EQ(queue->next(), nullptr) << i;
        complete(i);
        ASSERT_EQ(queue->next(), &entry(i)) << i;
        queue->release();
        EXPECT_EQ(be32toh(record[0]), i + 1);
    }
}

TEST_P(Completions, Armed)
{
    complete(0);
    queue->next();
    queue->arm(0);
    EXPECT_EQ(be32toh(record[1]), 1u);
    EXPECT_EQ(be64toh(uar[4]), uint64_t{1} << 32 | 0x654321);
    queue->arm(3);
    EXPECT_EQ(be32toh(record[1]), 3u << 28 | 1);
    queue->arm(2);
    EXPECT_EQ(be32toh(record[1]), 1u << 28 | 1) << "the count has two bits";
}

INSTANTIATE_TEST_SUITE_P(Sizes, Completions, testing::Values(64, 128));

} // namespace
} // namespace gdr::mlx5
