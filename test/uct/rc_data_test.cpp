// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The RC transport moves bytes: active messages, put and get of every kind, between host and device
// memory.
#include "rc_support.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace rc_test {
namespace {

constexpr size_t kSizes[] = {0, 1, 7, 8, 63, 64, 119, 120, 121, 4095, 4097, 8192};

std::string text_of(const Buffer& buffer, size_t length)
{
    std::string text(length, '\0');
    copy(text.data(), buffer.data(), length);
    return text;
}

// Two interfaces, or one and itself.
class Data : public testing::TestWithParam<bool> {
  protected:
    Data()
    {
        if (!GetParam()) {
            other_ = std::make_unique<Node>();
        }
        receiver = other_ ? other_.get() : &sender;
        nodes = {&sender};
        if (other_) {
            nodes.push_back(other_.get());
        }
        ep = std::make_unique<Endpoint>(sender, *receiver);
    }
    ~Data() override { ep.reset(); }

    void expect_message(unsigned id, const std::string& data)
    {
        ASSERT_TRUE(wait_until(nodes, [&] { return !receiver->received.empty(); }));
        ASSERT_EQ(receiver->received.size(), 1u);
        EXPECT_EQ(receiver->received[0].id, id);
        EXPECT_TRUE(receiver->received[0].data == data) << data.size() << " bytes";
        receiver->received.clear();
    }

    static std::string short_message(uint64_t header, const std::string& payload)
    {
        return std::string(reinterpret_cast<char*>(&header), sizeof(header)) + payload;
    }

    void expect_short(unsigned id, size_t length)
    {
        const std::string payload = pattern(length, id);
        const uint64_t header = 0x0123456789abcdef + id;
        ASSERT_EQ(
            retry(nodes, [&] { return uct_ep_am_short(*ep, id, header, payload.data(), length); }),
            UCS_OK);
        expect_message(id, short_message(header, payload));
    }

    // To the target's fourth byte.
    ucs_status_t put_short(const std::string& data, Buffer& target, Registered& registered)
    {
        return retry(nodes, [&] {
            return uct_ep_put_short(*ep, data.data(), static_cast<unsigned>(data.size()),
                                    target.address() + 3, registered.rkey());
        });
    }

    Node sender;
    std::unique_ptr<Node> other_;
    Node* receiver;
    std::vector<Node*> nodes;
    std::unique_ptr<Endpoint> ep;
};
INSTANTIATE_TEST_SUITE_P(To, Data, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Itself" : "Another"; });

struct ProtocolsV1 {
    ProtocolsV1() { setenv("UCX_PROTO_ENABLE", "n", 1); }
    ~ProtocolsV1() { setenv("UCX_PROTO_ENABLE", "y", 1); }
};

// Of callers who do not ask what memory their buffers are.
class DataOfAnyMemory : ProtocolsV1, public Data {};
INSTANTIATE_TEST_SUITE_P(To, DataOfAnyMemory, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Itself" : "Another"; });

// Nothing goes to no memory: UCX's own transports take that.
void expect_nothing_to_no_memory(uct_ep_h ep, const std::vector<Node*>& nodes)
{
    const uct_pack_callback_t pack_nothing = [](void*, void*) { return size_t{0}; };
    const uct_unpack_callback_t unpack_nothing = [](void*, const void*, size_t) {};
    char byte;
    EXPECT_EQ(retry(nodes, [&] { return uct_ep_put_short(ep, &byte, 0, 0, UCT_INVALID_RKEY); }),
              UCS_OK);
    EXPECT_EQ(uct_ep_put_bcopy(ep, pack_nothing, nullptr, 0, UCT_INVALID_RKEY), 0);
    EXPECT_EQ(uct_ep_put_zcopy(ep, nullptr, 0, 0, UCT_INVALID_RKEY, nullptr), UCS_OK);
    EXPECT_EQ(uct_ep_get_short(ep, &byte, 0, 0, UCT_INVALID_RKEY), UCS_OK);
    EXPECT_EQ(uct_ep_get_bcopy(ep, unpack_nothing, nullptr, 0, 0, UCT_INVALID_RKEY, nullptr),
              UCS_OK);
    EXPECT_EQ(uct_ep_get_zcopy(ep, nullptr, 0, 0, UCT_INVALID_RKEY, nullptr), UCS_OK);
    EXPECT_EQ(flush(nodes, ep), UCS_OK);
}

TEST_P(Data, NothingToNoMemory)
{
    expect_nothing_to_no_memory(*ep, nodes);
}

TEST_P(DataOfAnyMemory, NothingToNoMemory)
{
    expect_nothing_to_no_memory(*ep, nodes);
}

// The peer's HCA refuses a key that nobody packed, and the endpoint fails.
TEST_P(Data, SomethingToNoMemory)
{
    using Operation = std::function<ucs_status_t(uct_ep_h)>;
    static uint64_t word, result;
    const uct_pack_callback_t pack_word = [](void* to, void*) {
        std::memcpy(to, &word, sizeof(word));
        return sizeof(word);
    };
    const uct_unpack_callback_t unpack_word = [](void*, const void*, size_t) {};
    const Operation operations[] = {
        [](uct_ep_h ep) { return uct_ep_put_short(ep, &word, sizeof(word), 8, UCT_INVALID_RKEY); },
        [&](uct_ep_h ep) {
            const ssize_t sent = uct_ep_put_bcopy(ep, pack_word, nullptr, 8, UCT_INVALID_RKEY);
            return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
        },
        [](uct_ep_h ep) {
            return uct_ep_get_short(ep, &result, sizeof(result), 8, UCT_INVALID_RKEY);
        },
        [&](uct_ep_h ep) {
            return uct_ep_get_bcopy(ep, unpack_word, nullptr, 8, 8, UCT_INVALID_RKEY, nullptr);
        },
        [](uct_ep_h ep) {
            return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, 8, UCT_INVALID_RKEY);
        },
        [](uct_ep_h ep) {
            return uct_ep_atomic_cswap64(ep, 0, 1, 8, UCT_INVALID_RKEY, &result, nullptr);
        },
        [](uct_ep_h ep) {
            return uct_ep_atomic32_post(ep, UCT_ATOMIC_OP_XOR, 1, 8, UCT_INVALID_RKEY);
        },
    };
    for (const Operation& operation : operations) {
        const size_t failures = sender.failures.size();
        Endpoint failing(sender, *receiver);
        const ucs_status_t status = retry(nodes, [&] { return operation(failing); });
        EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS || UCS_STATUS_IS_ERR(status));
        EXPECT_TRUE(wait_until(nodes, [&] { return sender.failures.size() > failures; }));
    }
}

TEST_P(Data, AmShort)
{
    const size_t longest = sender.attributes().cap.am.max_short - sizeof(uint64_t);
    unsigned id = 0;
    for (size_t length = 0; length <= longest; length += length < 256 ? 1 : 97) {
        id = (id + 1) % UCT_AM_ID_MAX;
        expect_short(id, length);
    }
    expect_short(3, longest);
}

// More than there are buffers, and the caller's is its own again at once.
TEST_P(Data, AmShortInARow)
{
    const size_t longest = sender.attributes().cap.am.max_short - sizeof(uint64_t);
    constexpr unsigned kMessages = 3000;
    for (unsigned i = 0; i < kMessages; ++i) {
        std::string data = pattern(longest - i % 100, i);
        ASSERT_EQ(
            retry(nodes, [&] { return uct_ep_am_short(*ep, 5, i, data.data(), data.size()); }),
            UCS_OK);
        data.assign(data.size(), '?');
    }
    ASSERT_TRUE(wait_until(nodes, [&] { return receiver->received.size() == kMessages; }));
    for (unsigned i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(receiver->received[i].data == short_message(i, pattern(longest - i % 100, i)));
    }
}

TEST_P(Data, AmShortIov)
{
    const size_t pieces = sender.attributes().cap.am.max_iov;
    const size_t longest = sender.attributes().cap.am.max_short;
    for (size_t length : {size_t{8}, size_t{64}, size_t{120}, size_t{1000}, longest}) {
        std::string data = pattern(length, 5);
        std::vector<uct_iov_t> iov(pieces);
        for (size_t i = 0; i < pieces; ++i) {
            const size_t start = length * i / pieces;
            iov[i] = {data.data() + start, length * (i + 1) / pieces - start, nullptr, 0, 1};
        }
        iov[1].length = 0; // one of no length among them
        std::string expected;
        for (const uct_iov_t& piece : iov) {
            expected.append(static_cast<char*>(piece.buffer), piece.length);
        }
        ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short_iov(*ep, 7, iov.data(), iov.size()); }),
                  UCS_OK);
        expect_message(7, expected);
    }
}

TEST_P(Data, AmBcopy)
{
    for (size_t length : kSizes) {
        std::string data = pattern(length, 11);
        ssize_t sent = UCS_ERR_NO_RESOURCE;
        wait_until(nodes, [&] { return (sent = send_bcopy(*ep, 9, data)) != UCS_ERR_NO_RESOURCE; });
        ASSERT_EQ(sent, static_cast<ssize_t>(length));
        expect_message(9, data);
    }
    std::string longest = pattern(sender.attributes().cap.am.max_bcopy, 12);
    ASSERT_EQ(send_bcopy(*ep, 9, longest), static_cast<ssize_t>(longest.size()));
    expect_message(9, longest);
}

TEST_P(Data, AmZcopy)
{
    const auto& cap = sender.attributes().cap.am;
    for (Memory memory : {Memory::host, Memory::device}) {
        for (size_t length : kSizes) {
            Buffer buffer(memory, std::max<size_t>(length, 1));
            Registered registered(sender, buffer);
            std::string data = pattern(length, 21);
            copy(buffer.data(), data.data(), length);
            for (size_t header_length : {size_t{0}, size_t{1}, size_t{8}, size_t{cap.max_hdr}}) {
                if (header_length + length > cap.max_zcopy) {
                    continue;
                }
                std::string header = pattern(header_length, 22);
                std::vector<uct_iov_t> iov;
                for (size_t i = 0; i < cap.max_iov; ++i) {
                    size_t start = length * i / cap.max_iov;
                    iov.push_back(registered.piece(buffer.data() + start,
                                                   length * (i + 1) / cap.max_iov - start));
                }
                Completion done;
                ucs_status_t status = retry(nodes, [&] {
                    return uct_ep_am_zcopy(*ep, 4, header.data(),
                                           static_cast<unsigned>(header_length), iov.data(),
                                           iov.size(), 0, &done);
                });
                ASSERT_EQ(status, UCS_INPROGRESS);
                expect_message(4, header + data);
                ASSERT_TRUE(wait_until(nodes, [&] { return done.done(); }));
                ASSERT_EQ(done.status, UCS_OK);
            }
        }
    }
}

TEST_P(Data, PutShortAndBcopy)
{
    for (Memory memory : {Memory::host, Memory::device}) {
        Buffer target(memory, 8256);
        Registered registered(*receiver, target);
        unsigned seed = 0;
        for (size_t length : kSizes) {
            std::string data = pattern(length, ++seed);
            if (length <= sender.attributes().cap.put.max_short) {
                target.clear();
                ASSERT_EQ(put_short(data, target, registered), UCS_OK);
                ASSERT_EQ(flush(nodes, *ep), UCS_OK);
                EXPECT_TRUE(text_of(target, 8256).substr(3, length) == data);
                EXPECT_EQ(text_of(target, 8256)[3 + length], 0x5a) << "one too far";
            }
            target.clear();
            auto pack = [](void* to, void* arg) {
                auto& from = *static_cast<std::string*>(arg);
                memcpy(to, from.data(), from.size());
                return from.size();
            };
            ASSERT_EQ(uct_ep_put_bcopy(*ep, pack, &data, target.address() + 3, registered.rkey()),
                      static_cast<ssize_t>(length));
            ASSERT_EQ(flush(nodes, *ep), UCS_OK);
            EXPECT_TRUE(text_of(target, 8256).substr(3, length) == data);
            EXPECT_EQ(text_of(target, 8256)[3 + length], 0x5a) << "one too far";
        }
    }
}

TEST_P(Data, GetShortAndBcopy)
{
    for (Memory memory : {Memory::host, Memory::device}) {
        Buffer source(memory, 8256);
        Registered registered(*receiver, source);
        unsigned seed = 100;
        for (size_t length : kSizes) {
            std::string data = pattern(length, ++seed);
            copy(source.data() + 5, data.data(), length);
            std::string got(length, '?');
            if (length > 0 && length <= sender.attributes().cap.get.max_short) {
                ASSERT_EQ(retry(nodes,
                                [&] {
                                    return uct_ep_get_short(*ep, got.data(), length,
                                                            source.address() + 5,
                                                            registered.rkey());
                                }),
                          UCS_OK);
                EXPECT_TRUE(got == data);
                got.assign(length, '?');
            }
            auto unpack = [](void* arg, const void* bytes, size_t size) {
                memcpy(arg, bytes, size);
            };
            Completion done;
            ucs_status_t status = retry(nodes, [&] {
                return uct_ep_get_bcopy(*ep, unpack, got.data(), length, source.address() + 5,
                                        registered.rkey(), &done);
            });
            ASSERT_EQ(status, length > 0 ? UCS_INPROGRESS : UCS_OK);
            ASSERT_TRUE(wait_until(nodes, [&] { return status == UCS_OK || done.done(); }));
            EXPECT_TRUE(got == data) << length;
        }
    }
}

TEST_P(Data, PutAndGetZcopy)
{
    const size_t pieces = sender.attributes().cap.put.max_iov;
    for (Memory local : {Memory::host, Memory::device}) {
        for (Memory remote : {Memory::host, Memory::device}) {
            unsigned seed = 0;
            for (size_t length : {0ul, 1ul, 8ul, 4097ul, 1048576ul + 1}) {
                Buffer here(local, std::max<size_t>(length, 1));
                Buffer there(remote, std::max<size_t>(length, 1));
                Registered local_key(sender, here);
                Registered remote_key(*receiver, there);
                std::vector<uct_iov_t> iov;
                for (size_t i = 0; i < pieces; ++i) {
                    size_t start = length * i / pieces;
                    iov.push_back(
                        local_key.piece(here.data() + start, length * (i + 1) / pieces - start));
                }
                for (bool put : {true, false}) {
                    Buffer& from = put ? here : there;
                    Buffer& to = put ? there : here;
                    from.fill(++seed);
                    to.clear();
                    Completion done;
                    ucs_status_t status = retry(nodes, [&] {
                        return (put ? uct_ep_put_zcopy : uct_ep_get_zcopy)(
                            *ep, iov.data(), iov.size(), there.address(), remote_key.rkey(), &done);
                    });
                    ASSERT_EQ(status, length > 0 ? UCS_INPROGRESS : UCS_OK);
                    ASSERT_TRUE(wait_until(nodes, [&] { return status == UCS_OK || done.done(); }));
                    ASSERT_EQ(done.status, UCS_OK);
                    EXPECT_TRUE(to.holds(seed, 0, length)) << length << " bytes, put " << put;
                }
            }
        }
    }
}

TEST(TwoDevices, ReachOneAnother)
{
    Node first;
    Node second({}, kOtherDevice);
    Endpoint ep(first, second);
    std::vector<Node*> nodes{&first, &second};
    ASSERT_EQ(retry(nodes, [&] { return uct_ep_am_short(ep, 1, 42, nullptr, 0); }), UCS_OK);
    ASSERT_TRUE(wait_until(nodes, [&] { return second.received.size() == 1; }));
    EXPECT_EQ(second.received[0].data.size(), 8u);
}

// More than a buffer holds: one work request all the same, and both buffers come back.
TEST_P(DataOfAnyMemory, PutShortOfTwoBuffers)
{
    const size_t most = sender.attributes().cap.put.max_short;
    const size_t segment = sender.attributes().cap.put.max_bcopy;
    ASSERT_GT(most, segment) << "the interface does not look at memory";
    for (Memory memory : {Memory::host, Memory::device}) {
        Buffer target(memory, most + 4);
        Registered registered(*receiver, target);
        unsigned seed = 200;
        for (size_t length : {segment + 1, (segment + most) / 2, most}) {
            for (int i = 0; i < 600; ++i) { // more than there are pairs of buffers
                std::string data = pattern(length, ++seed);
                target.clear();
                const struct softhca_counters before = hca_counters();
                ASSERT_EQ(put_short(data, target, registered), UCS_OK);
                EXPECT_EQ(hca_counters().writes - before.writes, 1u);
                data.assign(length, '?'); // no longer needed
                if (i % 200 == 0) {
                    ASSERT_EQ(flush(nodes, *ep), UCS_OK);
                    const std::string there = text_of(target, most + 4);
                    EXPECT_TRUE(there.substr(3, length) == pattern(length, seed));
                    EXPECT_EQ(there[3 + length], 0x5a) << "one too far";
                }
            }
        }
        ASSERT_EQ(flush(nodes, *ep), UCS_OK);
    }
}

} // namespace
} // namespace rc_test
