// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls with arguments that an RC interface does not take: answered with a status, and the endpoint
// goes on as if they had not been.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rc_test {
namespace {

class Refusal : public testing::Test {
  protected:
    Node sender, receiver;
    std::vector<Node*> nodes{&sender, &receiver};
    Endpoint ep{sender, receiver};
    const uct_iface_attr_t& can = sender.attributes();
    std::vector<char> here = std::vector<char>(1 << 20), there = std::vector<char>(1 << 20);
    Registered here_key{sender, here.data(), here.size()};
    Registered there_key{receiver, there.data(), there.size()};
    const uint64_t address = reinterpret_cast<uint64_t>(there.data());
    Completion done;

    void SetUp() override
    {
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
        ASSERT_EQ(flush(nodes, ep), UCS_OK);
    }

    // The next message is the first that has come since.
    void TearDown() override
    {
        EXPECT_EQ(uct_ep_am_short(ep, 7, 77, nullptr, 0), UCS_OK);
        EXPECT_EQ(flush(nodes, ep), UCS_OK);
        ASSERT_TRUE(wait_until(nodes, [&] { return receiver.received_count >= 2; }));
        EXPECT_EQ(receiver.received_count, 2u);
        EXPECT_EQ(receiver.received.back().id, 7u);
        EXPECT_TRUE(sender.failures.empty());
        EXPECT_EQ(done.count, 1) << "completed though refused";
        for (char byte : there) {
            ASSERT_EQ(byte, 0);
        }
    }

    uct_iov_t piece(size_t length) { return here_key.piece(here.data(), length); }
    ucs_status_t bcopy(uint8_t id)
    {
        return static_cast<ucs_status_t>(send_bcopy(ep, id, "message"));
    }
};

TEST_F(Refusal, TooLongForShort)
{
    auto put = static_cast<unsigned>(can.cap.put.max_short);
    auto get = static_cast<unsigned>(can.cap.get.max_short);
    auto am = static_cast<unsigned>(can.cap.am.max_short - sizeof(uint64_t));
    for (unsigned excess : {1u, 100u, 100000u}) {
        EXPECT_EQ(uct_ep_put_short(ep, here.data(), put + excess, address, there_key.rkey()),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_get_short(ep, here.data(), get + excess, address, there_key.rkey()),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_short(ep, 1, 0, here.data(), am + excess), UCS_ERR_INVALID_PARAM);
        uct_iov_t iov[2] = {piece(am), piece(sizeof(uint64_t) + excess)};
        EXPECT_EQ(uct_ep_am_short_iov(ep, 1, iov, 2), UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(uct_ep_am_short(ep, 1, 0, here.data(), std::numeric_limits<unsigned>::max()),
              UCS_ERR_INVALID_PARAM);
}

TEST_F(Refusal, TooLongForBuffers)
{
    auto unpack = [](void*, const void*, size_t) { FAIL() << "unpacked"; };
    for (size_t length : {can.cap.get.max_bcopy + 1, size_t{1} << 20, size_t{1} << 40}) {
        EXPECT_EQ(uct_ep_get_bcopy(ep, unpack, nullptr, length, address, there_key.rkey(), &done),
                  UCS_ERR_INVALID_PARAM);
    }
}

TEST_F(Refusal, TooLongForZeroCopy)
{
    for (size_t length : {can.cap.put.max_zcopy + 1, size_t{1} << 40}) {
        uct_iov_t iov = piece(length);
        EXPECT_EQ(uct_ep_put_zcopy(ep, &iov, 1, address, there_key.rkey(), &done),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_get_zcopy(ep, &iov, 1, address, there_key.rkey(), &done),
                  UCS_ERR_INVALID_PARAM);
    }
    for (size_t length : {can.cap.am.max_zcopy - 7, can.cap.am.max_zcopy + 1, size_t{1} << 40}) {
        uct_iov_t iov = piece(length);
        for (unsigned i = 0; i < 1000; ++i) { // buffers are not lost
            ASSERT_EQ(uct_ep_am_zcopy(ep, 1, "header..", 8, &iov, 1, 0, &done),
                      UCS_ERR_INVALID_PARAM);
        }
    }
}

TEST_F(Refusal, TooLongAHeader)
{
    uct_iov_t iov = piece(1);
    std::string header(can.cap.am.max_hdr + 1, 'x');
    EXPECT_EQ(uct_ep_am_zcopy(ep, 1, header.data(), static_cast<unsigned>(header.size()), &iov, 1,
                              0, &done),
              UCS_ERR_INVALID_PARAM);
}

TEST_F(Refusal, TooManyPieces)
{
    for (size_t count : {can.cap.put.max_iov + 1, size_t{1000}}) {
        std::vector<uct_iov_t> iov(count, piece(1));
        EXPECT_EQ(uct_ep_put_zcopy(ep, iov.data(), count, address, there_key.rkey(), &done),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_get_zcopy(ep, iov.data(), count, address, there_key.rkey(), &done),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_zcopy(ep, 1, nullptr, 0, iov.data(), count, 0, &done),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_short_iov(ep, 1, iov.data(), count), UCS_ERR_INVALID_PARAM);
    }
}

TEST_F(Refusal, APieceWithoutHandle)
{
    uct_iov_t iov[2] = {piece(8), piece(8)};
    iov[1].memh = UCT_MEM_HANDLE_NULL;
    EXPECT_EQ(uct_ep_put_zcopy(ep, iov, 2, address, there_key.rkey(), &done),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_get_zcopy(ep, iov, 2, address, there_key.rkey(), &done),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_am_zcopy(ep, 1, "header", 6, iov, 2, 0, &done), UCS_ERR_INVALID_PARAM);
}

TEST_F(Refusal, NoSuchHandler)
{
    uct_iov_t iov = piece(8);
    for (unsigned id : {32u, 33u, 40u, 64u, 128u, 255u}) {
        auto wrong = static_cast<uint8_t>(id);
        EXPECT_EQ(uct_ep_am_short(ep, wrong, 0, nullptr, 0), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_short_iov(ep, wrong, &iov, 1), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(bcopy(wrong), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_am_zcopy(ep, wrong, nullptr, 0, &iov, 1, 0, &done), UCS_ERR_INVALID_PARAM);
    }
}

TEST_F(Refusal, NoSuchAtomic)
{
    uint64_t result64 = 0;
    uint32_t result32 = 0;
    for (unsigned operation : {unsigned{UCT_ATOMIC_OP_SWAP}, unsigned{UCT_ATOMIC_OP_CSWAP},
                               unsigned{UCT_ATOMIC_OP_LAST}}) {
        auto opcode = static_cast<uct_atomic_op_t>(operation);
        EXPECT_EQ(uct_ep_atomic32_post(ep, opcode, 1, address, there_key.rkey()),
                  UCS_ERR_UNSUPPORTED);
        EXPECT_EQ(uct_ep_atomic64_post(ep, opcode, 1, address, there_key.rkey()),
                  UCS_ERR_UNSUPPORTED);
        if (opcode == UCT_ATOMIC_OP_SWAP) {
            continue;
        }
        EXPECT_EQ(uct_ep_atomic32_fetch(ep, opcode, 1, &result32, address, there_key.rkey(), &done),
                  UCS_ERR_UNSUPPORTED);
        EXPECT_EQ(uct_ep_atomic64_fetch(ep, opcode, 1, &result64, address, there_key.rkey(), &done),
                  UCS_ERR_UNSUPPORTED);
    }
}

TEST_F(Refusal, MisalignedAtomics)
{
    uint64_t result64 = 0;
    uint32_t result32 = 0;
    const uint64_t aligned = (address + 7) / 8 * 8;
    for (unsigned offset : {1u, 2u, 3u, 5u, 6u, 7u}) {
        const uint64_t target = aligned + offset;
        for (uct_atomic_op_t operation : {UCT_ATOMIC_OP_ADD, UCT_ATOMIC_OP_XOR}) {
            EXPECT_EQ(uct_ep_atomic32_post(ep, operation, 1, target, there_key.rkey()),
                      UCS_ERR_INVALID_PARAM);
            EXPECT_EQ(uct_ep_atomic64_post(ep, operation, 1, target, there_key.rkey()),
                      UCS_ERR_INVALID_PARAM);
        }
        EXPECT_EQ(uct_ep_atomic_cswap32(ep, 0, 1, target, there_key.rkey(), &result32, &done),
                  UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_atomic_cswap64(ep, 0, 1, target, there_key.rkey(), &result64, &done),
                  UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, aligned + 4, there_key.rkey()),
              UCS_ERR_INVALID_PARAM);
}

TEST_F(Refusal, Check)
{
    EXPECT_EQ(uct_ep_check(ep, 1, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_check(ep, 0, &done), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_check(ep, 0, nullptr), UCS_OK);
}

TEST_F(Refusal, Interface)
{
    auto open = [&](uint64_t fields, size_t alignment, size_t offset) {
        return sender.try_to_open(UCT_IFACE_OPEN_MODE_DEVICE, fields, alignment, offset);
    };
    constexpr uint64_t kAlignment = UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT;
    constexpr uint64_t kOffset = UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
    EXPECT_EQ(sender.try_to_open(UCT_IFACE_OPEN_MODE_SOCKADDR_CLIENT, 0, 0, 0),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(open(kAlignment, 0, 0), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(open(kAlignment, 48, 0), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(open(kOffset, 0, 8), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(open(kAlignment | kOffset, 64, 8), UCS_OK);
    EXPECT_EQ(open(kAlignment | kOffset, 8, 8), UCS_OK) << "as UCP asks";
}

} // namespace
} // namespace rc_test
