// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Totals of a process, and what UCX_TLS says.
#include "abi/transport_list.hpp"
#include "stats/statistics.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace gdr::stats;
using gdr::abi::lists_transport;
using gdr::abi::names_transport;

TEST(Statistics, SumOfWhatIsAdded)
{
    Statistics statistics;
    statistics.add({.gpudirect_bytes = 1, .staged_bytes = 2, .host_bytes = 3});
    statistics.add({.gpudirect_bytes = 10,
                    .gpudirect_ops = 4,
                    .staged_ops = 5,
                    .ipc_bytes = 7,
                    .ipc_ops = 8,
                    .registrations = 6,
                    .mpi_staged_bytes = 9,
                    .mpi_gpu_bytes = 10});
    EXPECT_EQ(statistics.line(),
              "gdr pid=" + std::to_string(getpid()) +
                  " gpudirect_bytes=11 staged_bytes=2 host_bytes=3 gpudirect_ops=4"
                  " staged_ops=5 ipc_bytes=7 ipc_ops=8 registrations=6 mpi_direct_bytes=0"
                  " mpi_staged_bytes=9 mpi_gpu_bytes=10");
    EXPECT_TRUE(statistics.worth_a_line());
    statistics.begin_anew();
    EXPECT_EQ(statistics.totals().gpudirect_bytes, 0u);
    EXPECT_EQ(statistics.totals().registrations, 0u);
    EXPECT_FALSE(statistics.worth_a_line());
    statistics.add({.registrations = 1});
    EXPECT_TRUE(statistics.worth_a_line());
}

TEST(Statistics, FromSeveralThreads)
{
    Statistics statistics;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; ++n) {
                statistics.add({.host_bytes = 3});
            }
        });
    }
    threads.clear();
    EXPECT_EQ(statistics.totals().host_bytes, 12000u);
}

TEST(TransportList, Values)
{
    EXPECT_TRUE(lists_transport("all", "gdr"));
    EXPECT_TRUE(lists_transport("gdr", "gdr"));
    EXPECT_TRUE(lists_transport("tcp,gdr,self", "gdr"));
    EXPECT_TRUE(lists_transport("tcp,\\gdr", "gdr"));
    EXPECT_TRUE(lists_transport("gdr:aux", "gdr"));
    EXPECT_TRUE(lists_transport("^tcp,sm", "gdr"));
    EXPECT_FALSE(lists_transport("tcp", "gdr"));
    EXPECT_FALSE(lists_transport("gdrcopy,gdr_copy", "gdr"));
    EXPECT_FALSE(lists_transport("^tcp,gdr", "gdr"));

    EXPECT_TRUE(names_transport("tcp,gdr", "gdr"));
    EXPECT_FALSE(names_transport("all", "gdr"));
    EXPECT_FALSE(names_transport("^gdr", "gdr"));
    EXPECT_FALSE(lists_transport("^all", "gdr"));
    EXPECT_FALSE(lists_transport("", "gdr"));
}

} // namespace
