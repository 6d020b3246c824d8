// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies of the IPC interface between GPUs that do not reach each other: another process's memory
// is open for its own GPU alone.
#include "../tap.hpp"
#include "copy_support.hpp"
#include "ipc_owner.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace copy_test {
namespace {

Owner* owner; // made before CUDA is used

class IpcCopy : public testing::TestWithParam<Memory> {};

INSTANTIATE_TEST_SUITE_P(, IpcCopy, testing::Values(Memory::device, Memory::pool, Memory::pinned),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(IpcCopy, OfAGpuThatDoesNotReachTheOwners)
{
    const CUcontext near = primary_context(1), far = primary_context(0);
    const Opened opened(owner->allocate(7), far);
    const auto transport = opened.connect();
    Buffer out(GetParam(), Owner::kSize, near), in(GetParam(), Owner::kSize, near);
    for (unsigned seed = 1; seed < 4; ++seed) {
        out.fill(seed);
        in.clear();
        const uct_iov_t from{out.data(), Owner::kSize, UCT_MEM_HANDLE_NULL, 0, 1};
        const uct_iov_t to{in.data(), Owner::kSize, UCT_MEM_HANDLE_NULL, 0, 1};
        Completion put, got;
        ASSERT_EQ(
            uct_ep_put_zcopy(transport->ep(), &from, 1, opened.address(), opened.rkey(), &put),
            UCS_INPROGRESS);
        transport->wait(put);
        EXPECT_EQ(put.status, UCS_OK);
        ASSERT_EQ(uct_ep_get_zcopy(transport->ep(), &to, 1, opened.address(), opened.rkey(), &got),
                  UCS_INPROGRESS);
        transport->wait(got);
        EXPECT_EQ(got.status, UCS_OK);
        EXPECT_TRUE(in.holds(seed));
    }
}

// A key that nobody unpacked is refused, but nothing goes to no memory.
TEST(IpcKeys, OfNoMemory)
{
    const Opened opened(owner->allocate(7), primary_context(0));
    const auto transport = opened.connect();
    char bytes[8];
    for (const uct_rkey_t none : {uct_rkey_t{0}, uct_rkey_t{UCT_INVALID_RKEY}}) {
        for (const auto operation : {uct_ep_put_zcopy, uct_ep_get_zcopy}) {
            const uct_iov_t something{bytes, sizeof(bytes), UCT_MEM_HANDLE_NULL, 0, 1};
            Completion completion;
            EXPECT_EQ(operation(transport->ep(), &something, 1, 8, none, &completion),
                      UCS_ERR_INVALID_PARAM);
            ASSERT_EQ(operation(transport->ep(), nullptr, 0, 8, none, &completion), UCS_INPROGRESS);
            transport->wait(completion);
            EXPECT_EQ(completion.status, UCS_OK);
        }
    }
}

} // namespace
} // namespace copy_test

int main(int argc, char** argv)
{
    setenv("SOFTCUDA_DEVICES", "2", 1);
    setenv("SOFTCUDA_P2P", "off", 1);
    static copy_test::Owner first;
    copy_test::owner = &first;
    return run_tests(argc, argv);
}
