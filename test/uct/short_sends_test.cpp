// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// When UCP may send without a look at the memory: what the library that is preloaded tells of
// interfaces, in the order in which they are opened.
#include "abi/host.hpp"
#include "host/memtype_cache.hpp"
#include "preload/module.h"
#include "toy_component.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

enum Caller { kOther, kUcp };

void open_on_device(const char* transport, Caller caller)
{
    uct_iface_params_t params{};
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = transport;
    gdr_iface_opens(&params, caller == kUcp);
}

// As UCX 1.22 opens interfaces for endpoints that are not connected yet.
void open_stand_in()
{
    const uct_iface_params_t params{};
    gdr_iface_opens(&params, kUcp);
}

bool allowed()
{
    return gdr::host::memtype_cache().looks_empty();
}

void start()
{
    ASSERT_TRUE(gdr::abi::choose_series()) << gdr::abi::why_not();
    gdr::host::memtype_cache().hold();
    ASSERT_TRUE(gdr::host::memtype_cache().held());
}

// In a process of its own: what is decided stays.
TEST(ShortSends, NotWhereAStrangerMayDetectMemory)
{
    const auto open = [] {
        start();
        gdr::abi::register_component(toy::component());
        open_on_device("gdr", kUcp);
        std::exit(allowed() ? EXIT_FAILURE : EXIT_SUCCESS);
    };
    EXPECT_EXIT(open(), testing::ExitedWithCode(EXIT_SUCCESS), "");
}

TEST(ShortSends, WhileAllInterfacesOfUcpAreOurs)
{
    start();
    open_stand_in();
    EXPECT_FALSE(allowed());
    open_on_device("gdr", kOther);
    EXPECT_FALSE(allowed());
    open_on_device("gdr", kUcp);
    EXPECT_TRUE(allowed());
    open_stand_in();
    EXPECT_TRUE(allowed());
    open_on_device("tcp", kOther);
    EXPECT_FALSE(allowed());
    open_on_device("gdr", kUcp);
    EXPECT_FALSE(allowed());
}

} // namespace
