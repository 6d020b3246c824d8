// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What src/tables/by_page.hpp still knows of two series of buffers that take turns, wherever they
// lie.
#include "tables/by_page.hpp"

#include <gtest/gtest.h>

namespace gdr::tables {
namespace {

constexpr uintptr_t kPage = 4096;

TEST(ByPage, is_empty_at_first)
{
    ByPage<int, 3> table{};
    EXPECT_EQ(table.find(0), nullptr);
    EXPECT_EQ(table.find(kPage), nullptr);
    EXPECT_EQ(table[kPage], 0);
}

TEST(ByPage, tells_pages_apart)
{
    ByPage<int, 0> table{};
    table[kPage] = 1;
    table[2 * kPage] = 2;
    EXPECT_EQ(table[kPage], 1);
    EXPECT_EQ(table[kPage + 1], 1);
    EXPECT_EQ(table[3 * kPage - 1], 2);
    EXPECT_EQ(table.find(3 * kPage), nullptr);
}

TEST(ByPage, gives_up_what_came_first)
{
    ByPage<int, 0> table{};
    for (int i = 1; i <= 3; ++i) {
        table[static_cast<uintptr_t>(i) * kPage] = i;
    }
    EXPECT_EQ(table.find(kPage), nullptr);
    ASSERT_NE(table.find(2 * kPage), nullptr);
    EXPECT_EQ(*table.find(2 * kPage), 2);
    ASSERT_NE(table.find(3 * kPage), nullptr);
    EXPECT_EQ(*table.find(3 * kPage), 3);
}

TEST(ByPage, knows_two_series_wherever_they_lie)
{
    constexpr uintptr_t kFirst = uintptr_t{0x7f12} << 32;
    constexpr uintptr_t kBuffers = 64;
    for (uintptr_t distance = kPage; distance <= 1024 * kPage; distance *= 2) {
        for (uintptr_t second = 0; second < 2048; ++second) {
            ByPage<uintptr_t, 9> table{};
            const uintptr_t series[] = {kFirst, kFirst + 2 * kBuffers * distance + second * kPage};
            for (uintptr_t i = 0; i < kBuffers; ++i) {
                for (uintptr_t start : series) {
                    table[start + i * distance] = start + i * distance;
                }
            }
            for (uintptr_t i = 0; i < kBuffers; ++i) {
                for (uintptr_t start : series) {
                    const uintptr_t* known = table.find(start + i * distance);
                    ASSERT_NE(known, nullptr) << distance << ", " << second << ", " << i;
                    ASSERT_EQ(*known, start + i * distance);
                }
            }
        }
    }
}

} // namespace
} // namespace gdr::tables
