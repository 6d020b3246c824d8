// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The RC transport's registrations: what becomes of them when their memory goes, and what they
// grant to peers.
#include "rc_support.hpp"

#include "abi/series.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace rc_test {
namespace {

TEST(Memory, UnmappedIsGivenBackWhileNothingIsTransferred)
{
    constexpr size_t kLength = 16 << 20;
    Node node;
    void* memory =
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    {
        uct_mem_h memh;
        require(uct_md_mem_reg(node.md(), memory, kLength, UCT_MD_MEM_ACCESS_ALL, &memh),
                "uct_md_mem_reg");
        require(uct_md_mem_dereg(node.md(), memh), "uct_md_mem_dereg");
    }
    const uint64_t before = hca_counters().deregistrations;
    munmap(memory, kLength);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (hca_counters().deregistrations == before && std::chrono::steady_clock::now() < until) {
        usleep(1000);
    }
    EXPECT_EQ(hca_counters().deregistrations, before + 1);
}

ucs_memory_type_t type_of(const copy_test::Transport& transport, int gpu)
{
    const Buffer buffer(copy_test::Memory::device, 10000, copy_test::primary_context(gpu));
    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    require(uct_md_detect_memory_type(transport.md(), buffer.data(), buffer.length(), &type),
            "uct_md_detect_memory_type");
    return type;
}

// GPU 0 has no way to see what an HCA wrote, so no HCA takes its memory.
TEST(DISABLED_Staged, MemoryOfAGpuThatNoHcaTakes)
{
    const copy_test::Transport transport;
    EXPECT_EQ(type_of(transport, 0), UCS_MEMORY_TYPE_CUDA) << "no HCA has been looked at";
    Node node;
    EXPECT_EQ(type_of(transport, 0), UCS_MEMORY_TYPE_CUDA_MANAGED);
    EXPECT_EQ(type_of(transport, 1), UCS_MEMORY_TYPE_CUDA);
}

TEST(Memory, OfAGpuThatNoHcaTakesIsStaged)
{
    const Outcome outcome =
        run_self({{"SOFTCUDA_RDMA_ORDERING", "none,flush"}},
                 {"--gtest_filter=DISABLED_Staged.*", "--gtest_also_run_disabled_tests"});
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_NE(outcome.text.find("[  PASSED  ] 1 test"), std::string::npos) << outcome.text;
}

class Rights : public testing::Test {
  protected:
    void SetUp() override
    {
        const unsigned minor = gdr::abi::series().version.minor;
        if (minor >= 14 && minor <= 16) {
            GTEST_SKIP() << "UCP of 1.14 to 1.16 asks for less than it uses";
        }
        std::memset(memory, 'm', kLength);
    }
    ~Rights() override { munmap(memory, kLength); }

    // How an operation of the peer on memory ends.
    template <class Operation>
    ucs_status_t attack(Operation operation)
    {
        Endpoint ep(peer, owner);
        EXPECT_EQ(retry(nodes, [&] { return uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL, nullptr); }),
                  UCS_OK);
        Completion done;
        const ucs_status_t status = retry(nodes, [&] { return operation(ep, &done); });
        if (status != UCS_INPROGRESS) {
            return status;
        }
        EXPECT_TRUE(wait_until(nodes, [&] { return done.done(); }));
        return done.status;
    }
    ucs_status_t write(const Registered& target)
    {
        uct_iov_t piece = mine.piece(own.data(), own.size());
        return attack([&](uct_ep_h ep, uct_completion_t* done) {
            return uct_ep_put_zcopy(ep, &piece, 1, uintptr_t(memory), target.rkey(), done);
        });
    }
    ucs_status_t read(const Registered& target)
    {
        uct_iov_t piece = mine.piece(own.data(), own.size());
        return attack([&](uct_ep_h ep, uct_completion_t* done) {
            return uct_ep_get_zcopy(ep, &piece, 1, uintptr_t(memory), target.rkey(), done);
        });
    }

    static constexpr size_t kLength = 64 << 10;
    Node owner, peer;
    std::vector<Node*> nodes{&owner, &peer};
    char* memory = static_cast<char*>(
        mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::string own = std::string(4096, 'p');
    Registered mine{peer, own.data(), own.size()};
};

TEST_F(Rights, WhatIsOnlySentFromIsOutOfPeersReach)
{
    Registered sent(owner, memory, kLength, UCT_MD_MEM_ACCESS_LOCAL_READ);
    EXPECT_NE(write(sent), UCS_OK);
    EXPECT_NE(read(sent), UCS_OK);
    EXPECT_EQ(std::string(memory, kLength), std::string(kLength, 'm'));
    EXPECT_EQ(own, std::string(4096, 'p'));

    // The same memory mapped for peers: they reach it, and it is sent from as before.
    Registered mapped(owner, memory, kLength, UCT_MD_MEM_ACCESS_RMA);
    EXPECT_NE(mapped.rkey(), sent.rkey());
    EXPECT_EQ(read(mapped), UCS_OK);
    EXPECT_EQ(own, std::string(4096, 'm'));
    own.assign(4096, 'p');
    EXPECT_EQ(write(mapped), UCS_OK);
    EXPECT_EQ(std::string(memory, 4096), own);
    EXPECT_NE(write(sent), UCS_OK);
    Registered again(owner, memory, kLength, UCT_MD_MEM_ACCESS_LOCAL_READ);
    EXPECT_EQ(again.rkey(), mapped.rkey()) << "one registration for both";
}

TEST_F(Rights, AreEnoughForThisSidesOperations)
{
    Registered sent(owner, memory, kLength / 2, UCT_MD_MEM_ACCESS_LOCAL_READ);
    Registered received(owner, memory + kLength / 2, kLength / 2, UCT_MD_MEM_ACCESS_LOCAL_WRITE);
    Endpoint ep(owner, peer);
    for (const bool get : {false, true}) {
        char* at = get ? memory + kLength / 2 : memory;
        uct_iov_t piece = (get ? received : sent).piece(at, own.size());
        Completion done;
        const ucs_status_t status = retry(nodes, [&] {
            return (get ? uct_ep_get_zcopy : uct_ep_put_zcopy)(ep, &piece, 1, uintptr_t(own.data()),
                                                               mine.rkey(), &done);
        });
        ASSERT_EQ(status, UCS_INPROGRESS);
        ASSERT_TRUE(wait_until(nodes, [&] { return done.done(); }));
        EXPECT_EQ(done.status, UCS_OK);
        EXPECT_EQ(own, std::string(4096, 'm'));
        EXPECT_EQ(std::string(at, own.size()), own);
        std::memset(own.data(), 'm', own.size());
    }
    Completion done;
    uct_iov_t piece = sent.piece(memory, 1024);
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_zcopy(ep, 5, nullptr, 0, &piece, 1, 0, &done); }),
              UCS_INPROGRESS);
    ASSERT_TRUE(wait_until(nodes, [&] { return done.done() && !peer.received.empty(); }));
    EXPECT_EQ(peer.received[0].data, std::string(1024, 'm'));
}

} // namespace
} // namespace rc_test
