// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Short operations that are longer than what fits into a work request, where they want more buffers
// than there are: none is lost or changed, what waits is woken, and every buffer comes back.
#include "rc_support.hpp"

#include "rc/endpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string_view>

namespace rc_test {
namespace {

constexpr unsigned kBuffers = 8, kOperations = 6000;
constexpr size_t kLongest = gdr::rc::Limits::kMaxShort;

class ScarceBuffers : public testing::TestWithParam<unsigned> { // endpoints
  protected:
    ScarceBuffers()
    {
        for (unsigned i = 0; i < GetParam(); ++i) {
            Endpoint& ep = endpoints.emplace_back(sender, receiver);
            EXPECT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }), UCS_OK);
            EXPECT_EQ(flush(nodes, ep), UCS_OK);
        }
        EXPECT_TRUE(wait_until(nodes, [&] { return receiver.received.size() == GetParam(); }));
        receiver.received.clear();
    }

    // One of the three short calls; the caller's bytes are its own again at once.
    ucs_status_t call(unsigned kind, unsigned endpoint, uint64_t header, std::string& data)
    {
        Endpoint& ep = endpoints[endpoint];
        ucs_status_t status;
        if (kind == 0) {
            status = uct_ep_am_short(ep, 1, header, data.data(), data.size());
        } else if (kind == 1) {
            const size_t half = data.size() / 2;
            const uct_iov_t pieces[] = {{&header, sizeof(header), nullptr, 0, 1},
                                        {data.data(), half, nullptr, 0, 1},
                                        {nullptr, 0, nullptr, 0, 1},
                                        {data.data() + half, data.size() - half, nullptr, 0, 1}};
            status = uct_ep_am_short_iov(ep, 1, pieces, std::size(pieces));
        } else {
            status = uct_ep_put_short(ep, data.data(), data.size(),
                                      reinterpret_cast<uint64_t>(&target[endpoint * kLongest]),
                                      key.rkey());
        }
        if (status == UCS_OK) {
            ++done;
            std::fill(data.begin(), data.end(), '?');
        }
        return status;
    }

    Node sender{{{"TX_BUFFERS", std::to_string(kBuffers)}}}, receiver;
    const std::vector<Node*> nodes{&sender, &receiver};
    std::deque<Endpoint> endpoints;
    std::vector<char> target = std::vector<char>(kLongest * GetParam());
    Registered key{receiver, target.data(), target.size()};
    unsigned done = 0;
};

TEST_P(ScarceBuffers, LoseNothing)
{
    std::mt19937 random(7);
    std::deque<Waiting> waiting;
    std::deque<std::string> payloads; // of what waits, too
    std::vector<std::string> expected;
    std::vector<std::vector<std::string>> puts(GetParam());
    const auto& buffers = gdr::rc::rc_iface(sender.iface()).buffers;
    unsigned without_buffer = 0;
    for (unsigned i = 0; i < kOperations; ++i) {
        const unsigned kind = random() % 3, endpoint = random() % GetParam();
        const size_t length = random() % 8 == 0 ? kLongest : 8 + random() % (kLongest - 8);
        std::string& data = payloads.emplace_back(pattern(length, i));
        const uint64_t header = i;
        if (kind == 2) {
            puts[endpoint].push_back(data);
        } else {
            expected.push_back(std::string(reinterpret_cast<const char*>(&header), 8) + data);
        }
        const auto operation = [=, this, &data] { return call(kind, endpoint, header, data); };
        ucs_status_t status;
        while ((status = operation()) == UCS_ERR_NO_RESOURCE) {
            without_buffer += buffers->any() ? 0 : 1;
            if (uct_ep_pending_add(endpoints[endpoint], &waiting.emplace_back(operation), 0) ==
                UCS_OK) {
                break;
            }
            waiting.pop_back(); // there is room again
        }
        ASSERT_TRUE(status == UCS_OK || status == UCS_ERR_NO_RESOURCE) << ucs_status_string(status);
        for (unsigned k = 0; random() % 8 == 0 && k < 5; ++k) {
            sender.progress();
            receiver.progress();
        }
    }
    EXPECT_GT(without_buffer, kOperations / 10);
    ASSERT_TRUE(wait_until(
        nodes, [&] { return done == kOperations && receiver.received.size() == expected.size(); }))
        << done << " done, " << receiver.received.size() << " of " << expected.size()
        << " received";
    for (Endpoint& ep : endpoints) {
        ASSERT_EQ(flush(nodes, ep), UCS_OK);
    }
    EXPECT_EQ(buffers->available(), kBuffers);

    std::vector<std::string> received;
    for (const Message& message : receiver.received) {
        received.push_back(message.data);
    }
    std::ranges::sort(received); // the endpoints' orders are independent
    std::ranges::sort(expected);
    EXPECT_TRUE(received == expected);
    for (unsigned i = 0; i < GetParam(); ++i) { // which is the last is not told
        const std::string_view written(&target[i * kLongest], kLongest);
        EXPECT_TRUE(std::ranges::any_of(puts[i], [&](const std::string& put) {
            return written.starts_with(put);
        })) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Endpoints, ScarceBuffers, testing::Values(1, 3, 16));

} // namespace
} // namespace rc_test
