// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How long the library waits for its thread.
#include "sync/ucx/deadline.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;

void expect_later(timespec now, std::chrono::nanoseconds by, timespec then)
{
    const timespec found = gdr::sync::later(now, by);
    EXPECT_EQ(found.tv_sec, then.tv_sec);
    EXPECT_EQ(found.tv_nsec, then.tv_nsec);
}

TEST(Deadline, FractionsOfSecondsCount)
{
    expect_later({7, 0}, 0ms, {7, 0});
    expect_later({7, 5}, 2s, {9, 5});
    expect_later({7, 5}, 10ms, {7, 10'000'005});
    expect_later({7, 999'000'000}, 1ms, {8, 0});
    expect_later({7, 999'999'999}, 1999ms, {9, 998'999'999});
}

} // namespace
