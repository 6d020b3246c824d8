// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Work requests and completions in UCX's log.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <string>

extern "C" {
#include <ucs/config/global_opts.h>
}

namespace rc_test {
namespace {

class Level {
  public:
    explicit Level(const char* level)
    {
        EXPECT_EQ(ucs_global_opts_get_value("LOG_LEVEL", before_, sizeof(before_)), UCS_OK);
        EXPECT_EQ(ucs_global_opts_set_value("LOG_LEVEL", level), UCS_OK);
    }
    ~Level() { ucs_global_opts_set_value("LOG_LEVEL", before_); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    char before_[32];
};

// What is logged about a message, a put and a get.
std::string log_of_transfers(Node& sender, Node& receiver)
{
    const std::vector<Node*> nodes{&sender, &receiver};
    std::string there(4096, 't');
    Registered remote(receiver, there.data(), there.size());
    Endpoint ep(sender, receiver);
    EXPECT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 0, nullptr, 0); }), UCS_OK);
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 1; }));
    const Level data("data");
    testing::internal::CaptureStdout();
    const auto address = reinterpret_cast<uint64_t>(there.data());
    EXPECT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 7, 0, "1234", 4); }), UCS_OK);
    EXPECT_EQ(
        retry(nodes, [&] { return uct_ep_put_short(ep, "12345", 5, address, remote.rkey()); }),
        UCS_OK);
    char got[6];
    EXPECT_EQ(retry(nodes, [&] { return uct_ep_get_short(ep, got, 6, address, remote.rkey()); }),
              UCS_OK);
    EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received_count == 2; }));
    return testing::internal::GetCapturedStdout();
}

TEST(Trace, NamesWorkRequestsAndCompletions)
{
    const Level data("data");
    Node sender, receiver;
    const std::string log = log_of_transfers(sender, receiver);
    for (const char* line :
         {"SEND of 12 bytes, active message 0x7", "RDMA WRITE of 5 bytes", "RDMA READ of 6 bytes",
          "completes up to", "receives active message 0x7 of 12 bytes"}) {
        EXPECT_NE(log.find(line), std::string::npos) << line << " in:\n" << log;
    }
}

// The choice is made when the interface is opened.
TEST(Trace, IsAbsentFromInterfacesOfOtherLevels)
{
    Node sender, receiver;
    EXPECT_EQ(log_of_transfers(sender, receiver).find(" QP 0x"), std::string::npos);
}

} // namespace
} // namespace rc_test
