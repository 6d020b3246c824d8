// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a forked child has of memory that is registered: all of it, as since Linux 5.12.
#include "softhca_fixture.hpp"

#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

namespace {

// Before libibverbs looks: otherwise it takes no care of forks at all.
const int fork_safe = setenv("RDMAV_FORK_SAFE", "1", 1);

TEST(Fork, AChildHasRegisteredMemory)
{
    Device device;
    Endpoint endpoint(device);
    fill(endpoint.buffer.data(), endpoint.buffer.size(), 1);
    const pid_t child = fork();
    if (child == 0) {
        _exit(is_filled(endpoint.buffer.data(), endpoint.buffer.size(), 1) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(fork_safe, 0);
    EXPECT_EQ(status, 0);
}

} // namespace
