// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What becomes of the RC transport's registrations when their memory goes.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <chrono>

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
    while (hca_counters().deregistrations == before && std::chrono::steady_clock::now() < until)
        usleep(1000);
    EXPECT_EQ(hca_counters().deregistrations, before + 1);
}

} // namespace
} // namespace rc_test
