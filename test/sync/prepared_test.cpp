// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Prepared transfers by the public interface, between two contexts of this process, over queue
// pairs of the library's own and over UCP.
#include "kernel_functions.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

namespace synctest {
namespace {

struct Way {
    const char* name;
    bool ucp;
    bool host; // where the buffers are
};

struct PreparedSide {
    std::optional<Worker> ucp{};
    ugdr_context_h context = nullptr;
    ugdr_peer_h peer = nullptr;
};

class PreparedBase : public Cuda {
  protected:
    void connect(bool ucp, unsigned pairs = 1)
    {
        for (unsigned i = 0; i < 2 * pairs; ++i) {
            PreparedSide& side = sides_.emplace_back();
            side.context = create_side(side.ucp, ucp);
            side.peer = create_peer(side.context, 1);
            ASSERT_NE(side.peer, nullptr);
        }
        for (size_t i = 0; i < sides_.size(); ++i) {
            connect_peer(sides_[i].peer, sides_[i ^ 1].peer);
        }
    }

    void TearDown() override
    {
        for (const ugdr_transfer_h transfer : transfers_) {
            EXPECT_TRUE(eventually([&] { return ugdr_transfer_destroy(transfer) == UCS_OK; }));
        }
        transfers_.clear();
        for (PreparedSide& side : sides_) {
            if (side.context != nullptr) {
                EXPECT_TRUE(
                    eventually([&] { return ugdr_context_destroy(side.context, 0) == UCS_OK; }));
            }
        }
        for (PreparedSide& side : sides_) {
            side.ucp.reset();
        }
        sides_.clear();
    }

    PreparedSide& a() { return sides_[0]; }
    PreparedSide& b() { return sides_[1]; }

    static ugdr_transfer_params_t params_of(const PreparedSide& side, void* buffer, size_t length,
                                            unsigned partitions, uint64_t tag)
    {
        ugdr_transfer_params_t params{};
        params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                            UGDR_TRANSFER_PARAM_FIELD_PARTITIONS | UGDR_TRANSFER_PARAM_FIELD_TAG;
        params.peer = side.peer;
        params.buffer = buffer;
        params.length = length;
        params.partitions = partitions;
        params.tag = tag;
        return params;
    }

    ugdr_transfer_h make(const PreparedSide& side, ugdr_transfer_side_t which, void* buffer,
                         size_t length, unsigned partitions = 1, uint64_t tag = 1)
    {
        const ugdr_transfer_params_t params = params_of(side, buffer, length, partitions, tag);
        ugdr_transfer_h transfer = nullptr;
        EXPECT_UCS(ugdr_transfer_create(side.context, which, &params, &transfer));
        transfers_.push_back(transfer);
        return transfer;
    }

    static void match(ugdr_transfer_h one, ugdr_transfer_h other)
    {
        EXPECT_TRUE(eventually([&] {
            const ucs_status_t first = ugdr_transfer_test_match(one),
                               second = ugdr_transfer_test_match(other);
            return first == UCS_OK && second == UCS_OK;
        }));
    }

    void forget(ugdr_transfer_h transfer)
    {
        EXPECT_UCS(ugdr_transfer_destroy(transfer));
        std::erase(transfers_, transfer);
    }

    static bool arrived(ugdr_transfer_h transfer, unsigned partition)
    {
        int is = 0;
        EXPECT_UCS(ugdr_transfer_arrived(transfer, partition, &is));
        return is != 0;
    }

    std::deque<PreparedSide> sides_; // which stay where they are
    std::vector<ugdr_transfer_h> transfers_;
};

using Numbers = std::vector<uint32_t>;

// What partition i of an iteration has.
uint32_t number(unsigned iteration, size_t index)
{
    return iteration * 1000003 + static_cast<uint32_t>(index);
}
Numbers numbers(unsigned iteration, size_t count)
{
    Numbers all(count);
    for (size_t i = 0; i < count; ++i) {
        all[i] = number(iteration, i);
    }
    return all;
}

// A buffer on either side, and a transfer from a's to b's.
class Prepared : public PreparedBase, public testing::WithParamInterface<Way> {
  protected:
    static constexpr size_t kCount = 1536; // numbers, a multiple of 2, 3 and 512

    void prepare(unsigned sends = 1, unsigned receives = 1, size_t count = kCount)
    {
        count_ = count;
        connect(GetParam().ucp);
        out_ = buffer();
        in_ = buffer();
        from_ = make(a(), UGDR_TRANSFER_SEND, out_, count * sizeof(uint32_t), sends);
        to_ = make(b(), UGDR_TRANSFER_RECV, in_, count * sizeof(uint32_t), receives);
        match(from_, to_);
    }

    uint32_t* buffer()
    {
        if (!GetParam().host) {
            return on_gpu<uint32_t>(count_);
        }
        auto* made = pinned<uint32_t>(count_);
        std::memset(made, 0, count_ * sizeof(*made));
        return made;
    }

    void write(unsigned iteration)
    {
        const Numbers all = numbers(iteration, count_);
        ASSERT_CUDA(cuMemcpy(address_of(out_), address_of(all.data()), count_ * sizeof(all[0])));
    }
    Numbers read() const { return copy_of(in_, count_); }

    // For streams, which must not copy from host to host memory while others wait: what they copy
    // to a GPU, and from there.
    void stage()
    {
        source_ = GetParam().host ? out_ : pinned<uint32_t>(count_);
        sink_ = GetParam().host ? in_ : pinned<uint32_t>(count_);
    }
    void fill(unsigned iteration) const
    {
        const Numbers all = numbers(iteration, count_);
        std::copy(all.begin(), all.end(), source_);
    }
    Numbers seen() const { return {sink_, sink_ + count_}; }
    void copy_out(CUstream stream) const
    {
        if (!GetParam().host) {
            EXPECT_CUDA(cuMemcpyAsync(address_of(out_), address_of(source_), count_ * sizeof(*out_),
                                      stream));
        }
    }
    void copy_in(CUstream stream) const
    {
        if (!GetParam().host) {
            EXPECT_CUDA(
                cuMemcpyAsync(address_of(sink_), address_of(in_), count_ * sizeof(*in_), stream));
        }
    }

    void iterate(unsigned iteration, unsigned sends)
    {
        write(iteration);
        ASSERT_UCS(ugdr_transfer_start(from_));
        ASSERT_UCS(ugdr_transfer_start(to_));
        for (unsigned i = sends; i-- > 0;) {
            ASSERT_UCS(ugdr_transfer_ready(from_, i));
        }
        ASSERT_UCS(ugdr_transfer_wait(to_));
        ASSERT_EQ(read(), numbers(iteration, count_)) << iteration;
        ASSERT_UCS(ugdr_transfer_wait(from_));
    }

    size_t count_ = kCount;
    uint32_t *out_ = nullptr, *in_ = nullptr, *source_ = nullptr, *sink_ = nullptr;
    ugdr_transfer_h from_ = nullptr, to_ = nullptr;
};

TEST_P(Prepared, EitherSideMayBeAhead)
{
    prepare();
    ugdr_engine_t engine = UGDR_ENGINE_DIRECT;
    EXPECT_UCS(ugdr_transfer_engine(from_, &engine));
    EXPECT_EQ(engine, GetParam().ucp ? UGDR_ENGINE_UCP : UGDR_ENGINE_DIRECT);
    write(1);
    EXPECT_UCS(ugdr_transfer_start(from_));
    EXPECT_UCS(ugdr_transfer_ready(from_, 0));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(ugdr_transfer_test(from_), UCS_INPROGRESS);
    EXPECT_EQ(read(), Numbers(count_)) << "the receiver has not started";
    EXPECT_UCS(ugdr_transfer_start(to_));
    EXPECT_UCS(ugdr_transfer_wait(to_));
    EXPECT_EQ(read(), numbers(1, count_));
    EXPECT_UCS(ugdr_transfer_wait(from_));

    EXPECT_UCS(ugdr_transfer_start(to_));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(ugdr_transfer_test(to_), UCS_INPROGRESS);
    EXPECT_FALSE(arrived(to_, 0));
    write(2);
    EXPECT_UCS(ugdr_transfer_start(from_));
    EXPECT_UCS(ugdr_transfer_prepare(from_));
    EXPECT_UCS(ugdr_transfer_ready(from_, 0));
    EXPECT_UCS(ugdr_transfer_wait(from_));
    EXPECT_UCS(ugdr_transfer_wait(to_));
    EXPECT_TRUE(arrived(to_, 0));
    EXPECT_EQ(read(), numbers(2, count_));
}

TEST_P(Prepared, UnequalPartitions)
{
    for (const auto& [sends, receives] : {std::pair(6u, 4u), std::pair(1u, 8u), std::pair(8u, 1u),
                                          std::pair(3u, 512u), std::pair(512u, 2u)}) {
        SCOPED_TRACE(std::to_string(sends) + " to " + std::to_string(receives));
        prepare(sends, receives);
        for (unsigned iteration = 1; iteration <= 5; ++iteration) {
            iterate(iteration, sends);
        }
        TearDown();
    }
}

// One of the receiver's is there when all of the sender's that it is made of are.
TEST_P(Prepared, PartitionsArriveOneByOne)
{
    prepare(6, 4);
    write(1);
    EXPECT_UCS(ugdr_transfer_start(to_));
    EXPECT_UCS(ugdr_transfer_start(from_));
    std::vector<bool> expected(4);
    const auto ready = [&](unsigned partition, std::initializer_list<unsigned> complete) {
        EXPECT_UCS(ugdr_transfer_ready(from_, partition));
        for (const unsigned one : complete) {
            EXPECT_TRUE(eventually([&] { return arrived(to_, one); })) << one;
            expected[one] = true;
        }
        if (complete.size() == 0) {
            std::this_thread::sleep_for(kLongEnough);
        }
        for (unsigned i = 0; i < 4; ++i) {
            EXPECT_EQ(arrived(to_, i), expected[i]) << i << " after " << partition;
        }
    };
    // Partitions of 6 and of 4, in twelfths: 0-2-4-6-8-10-12, 0-3-6-9-12.
    ready(5, {});
    ready(1, {});
    ready(0, {0});
    ready(4, {3});
    ready(3, {2});
    EXPECT_EQ(ugdr_transfer_test(to_), UCS_INPROGRESS);
    ready(2, {1});
    EXPECT_UCS(ugdr_transfer_wait(to_));
    EXPECT_EQ(read(), numbers(1, count_));
}

TEST_P(Prepared, ManyIterations)
{
    prepare(4, 2, 256);
    const unsigned iterations = GetParam().ucp ? 300 : GetParam().host ? 3000 : 1000;
    for (unsigned i = 1; i <= iterations && !HasFatalFailure(); ++i) {
        iterate(i, 4);
    }
}

// The sides run by themselves, as far ahead as they can.
TEST_P(Prepared, BackToBack)
{
    prepare(2, 2, 256);
    const unsigned iterations = GetParam().ucp ? 300 : 2000;
    std::thread sender([&] {
        EXPECT_CUDA(cuCtxSetCurrent(context_));
        for (unsigned i = 1; i <= iterations; ++i) {
            write(i);
            EXPECT_UCS(ugdr_transfer_start(from_));
            EXPECT_UCS(ugdr_transfer_ready(from_, 1));
            EXPECT_UCS(ugdr_transfer_ready(from_, 0));
            EXPECT_UCS(ugdr_transfer_wait(from_));
        }
    });
    for (unsigned i = 1; i <= iterations; ++i) {
        EXPECT_UCS(ugdr_transfer_start(to_));
        EXPECT_UCS(ugdr_transfer_wait(to_));
        ASSERT_EQ(read(), numbers(i, count_)) << i;
    }
    sender.join();
}

// ---- who triggers

TEST_P(Prepared, Streams)
{
    prepare(4, 2);
    CUstream sends = stream(), receives = stream();
    stage();
    for (unsigned i = 1; i <= 20; ++i) {
        EXPECT_UCS(ugdr_transfer_wait(from_));
        fill(i);
        // All is enqueued ahead, the sender without a wait of the CPU.
        ugdr_condition_h start = point_of(b().context, receives);
        EXPECT_UCS(ugdr_transfer_start_on(to_, start));
        EXPECT_UCS(ugdr_condition_destroy(start));
        EXPECT_UCS(ugdr_transfer_wait_on(to_, receives));

        start = point_of(a().context, sends);
        EXPECT_UCS(ugdr_transfer_start_on(from_, start));
        EXPECT_UCS(ugdr_condition_destroy(start));
        copy_out(sends);
        ugdr_condition_h ready = point_of(a().context, sends);
        EXPECT_UCS(ugdr_transfer_ready_on(from_, 2, 2, ready));
        EXPECT_UCS(ugdr_transfer_ready_on(from_, 0, 2, ready));
        EXPECT_EQ(ugdr_transfer_ready_on(from_, 0, 1, ready), UCS_ERR_INVALID_PARAM) << "twice";
        EXPECT_UCS(ugdr_condition_destroy(ready));
        EXPECT_UCS(ugdr_transfer_wait_on(from_, sends));

        copy_in(receives);
        ASSERT_CUDA(cuStreamSynchronize(receives));
        EXPECT_EQ(seen(), numbers(i, count_)) << i;
    }
    ASSERT_CUDA(cuStreamSynchronize(sends));
    EXPECT_UCS(ugdr_transfer_wait(from_));
    EXPECT_UCS(ugdr_transfer_wait(to_));
}

// Captured: launched again and again, with no call of the CPU for an iteration.
TEST_P(Prepared, CapturedGraphs)
{
    constexpr unsigned kLaunches = 100;
    prepare(2, 2, 256);
    CUstream sends = stream(), receives = stream();
    stage();
    const auto captured = [&](CUstream on, const std::function<void()>& body) {
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        EXPECT_CUDA(cuStreamBeginCapture(on, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        body();
        EXPECT_CUDA(cuStreamEndCapture(on, &graph));
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_CUDA(cuGraphDestroy(graph));
        return executable;
    };
    const auto start = [&](const PreparedSide& side, ugdr_transfer_h transfer, CUstream on) {
        ugdr_condition_h point = point_of(side.context, on, UCS_OK, UGDR_CONDITION_FLAG_WAIT);
        EXPECT_UCS(ugdr_transfer_start_on(transfer, point));
        EXPECT_UCS(ugdr_condition_destroy(point));
    };
    CUgraphExec sending = captured(sends, [&] {
        start(a(), from_, sends);
        copy_out(sends);
        ugdr_condition_h point = point_of(a().context, sends);
        EXPECT_UCS(ugdr_transfer_ready_on(from_, 0, 2, point));
        EXPECT_UCS(ugdr_condition_destroy(point));
        EXPECT_UCS(ugdr_transfer_wait_on(from_, sends));
    });
    CUgraphExec receiving = captured(receives, [&] {
        start(b(), to_, receives);
        EXPECT_UCS(ugdr_transfer_wait_on(to_, receives));
        copy_in(receives);
    });
    for (unsigned i = 1; i <= kLaunches; ++i) {
        fill(i);
        ASSERT_CUDA(cuGraphLaunch(sending, sends));
        ASSERT_CUDA(cuGraphLaunch(receiving, receives));
        ASSERT_CUDA(cuStreamSynchronize(sends));
        ASSERT_CUDA(cuStreamSynchronize(receives));
        ASSERT_EQ(seen(), numbers(i, count_)) << i;
    }
    // And back to back.
    for (unsigned i = 0; i < kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(sending, sends));
        ASSERT_CUDA(cuGraphLaunch(receiving, receives));
    }
    ASSERT_CUDA(cuStreamSynchronize(sends));
    ASSERT_CUDA(cuStreamSynchronize(receives));
    EXPECT_CUDA(cuGraphExecDestroy(sending));
    EXPECT_CUDA(cuGraphExecDestroy(receiving));
}

TEST_P(Prepared, ExplicitGraphs)
{
    constexpr unsigned kLaunches = 100;
    prepare(2, 1, 256);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_CUDA(cuGraphCreate(&graph, 0));
    const auto node = [&](std::vector<ugdr_cu_node_t> dependencies) {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
        params.category = UGDR_CONDITION_GRAPH;
        params.graph = graph;
        params.dependencies = dependencies.data();
        params.num_dependencies = dependencies.size();
        ugdr_condition_h condition = nullptr;
        EXPECT_UCS(ugdr_condition_create(a().context, &params, &condition));
        return condition;
    };
    const auto node_of = [](ugdr_condition_h condition) {
        ugdr_condition_attr_t attr{};
        attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
        EXPECT_UCS(ugdr_condition_query(condition, &attr));
        return attr.done_node;
    };
    ugdr_condition_h start = node({});
    EXPECT_UCS(ugdr_transfer_start_on(from_, start));
    ugdr_condition_h ready = node({node_of(start)});
    EXPECT_UCS(ugdr_transfer_ready_on(from_, 0, 2, ready));
    EXPECT_UCS(ugdr_condition_destroy(start));
    EXPECT_UCS(ugdr_condition_destroy(ready));
    ASSERT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
    ASSERT_CUDA(cuGraphDestroy(graph));
    CUstream work = stream();
    for (unsigned i = 1; i <= kLaunches; ++i) {
        write(i);
        ASSERT_UCS(ugdr_transfer_start(to_));
        ASSERT_CUDA(cuGraphLaunch(executable, work));
        ASSERT_UCS(ugdr_transfer_wait(to_));
        ASSERT_EQ(read(), numbers(i, count_)) << i;
        ASSERT_CUDA(cuStreamSynchronize(work));
    }
    EXPECT_CUDA(cuGraphExecDestroy(executable));
}

// A kernel writes and says what is ready, another waits for it and looks.
TEST_P(Prepared, Kernels)
{
    if (!have_kernels()) {
        GTEST_SKIP() << kNoKernels;
    }
    constexpr unsigned kPartitions = 4, kLaunches = 50;
    prepare(kPartitions, 2, 256);
    const CUfunction produce_all = kernel("initiators", "sync_make_ready"),
                     consume_all = kernel("initiators", "sync_look_at_arrivals");
    ugdr_dev_transfer_t from{}, to{};
    ASSERT_UCS(ugdr_transfer_device(from_, &from));
    ASSERT_UCS(ugdr_transfer_device(to_, &to));
    CUstream sends = stream(), receives = stream();
    int* statuses = on_gpu<int>(kPartitions);
    const auto count = static_cast<unsigned>(count_);
    for (unsigned i = 1; i <= kLaunches; ++i) {
        ASSERT_UCS(ugdr_transfer_start(to_));
        ASSERT_UCS(ugdr_transfer_start(from_));
        launch(consume_all, 2, 32, receives, {&to, &in_, &count, &i, &statuses});
        launch(produce_all, kPartitions, 32, sends, {&from, &out_, &count, &i});
        ASSERT_CUDA(cuStreamSynchronize(sends));
        ASSERT_CUDA(cuStreamSynchronize(receives));
        ASSERT_UCS(ugdr_transfer_wait(from_));
        ASSERT_UCS(ugdr_transfer_wait(to_));
        ASSERT_EQ(copy_of(statuses, 2), std::vector<int>(2)) << i;
        ASSERT_EQ(read(), numbers(i, count_)) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, Prepared,
                         testing::Values(Way{"Host", false, true}, Way{"Gpu", false, false},
                                         Way{"HostByUcp", true, true},
                                         Way{"GpuByUcp", true, false}),
                         [](const auto& info) { return info.param.name; });

// ---- what does not depend on the way

class PreparedOnce : public PreparedBase {
  protected:
    std::vector<uint64_t> out_ = std::vector<uint64_t>(1024), in_ = std::vector<uint64_t>(1024);

    ugdr_transfer_h sender(size_t pair = 0, unsigned partitions = 1, uint64_t tag = 1)
    {
        return make(sides_[2 * pair], UGDR_TRANSFER_SEND, out_.data(), 8192, partitions, tag);
    }
    ugdr_transfer_h receiver(size_t pair = 0, unsigned partitions = 1, uint64_t tag = 1)
    {
        return make(sides_[2 * pair + 1], UGDR_TRANSFER_RECV, in_.data(), 8192, partitions, tag);
    }
};

// A thread looks at the words all the time.
TEST_F(PreparedOnce, NeverAWordBeforeItsData)
{
    constexpr unsigned kPartitions = 8, kIterations = 1000;
    connect(false);
    ugdr_transfer_h from = sender(0, kPartitions), to = receiver(0, kPartitions);
    match(from, to);
    const size_t words = out_.size() / kPartitions;
    std::atomic<uint64_t> wrong{0};
    std::thread looks([&] {
        for (uint64_t i = 1; i <= kIterations; ++i) {
            EXPECT_UCS(ugdr_transfer_start(to));
            for (unsigned left = (1u << kPartitions) - 1; left != 0; std::this_thread::yield()) {
                for (unsigned p = 0; p < kPartitions; ++p) {
                    if ((left & 1u << p) == 0 || !arrived(to, p)) {
                        continue;
                    }
                    left &= ~(1u << p);
                    const auto number = [&](size_t index) {
                        return std::atomic_ref(in_[index]).load(std::memory_order_relaxed);
                    };
                    wrong += number(p * words) != i || number((p + 1) * words - 1) != i;
                }
            }
            EXPECT_UCS(ugdr_transfer_wait(to));
        }
    });
    for (uint64_t i = 1; i <= kIterations; ++i) {
        std::fill(out_.begin(), out_.end(), i);
        EXPECT_UCS(ugdr_transfer_start(from));
        for (unsigned p = 0; p < kPartitions; ++p) {
            EXPECT_UCS(ugdr_transfer_ready(from, (p * 5 + static_cast<unsigned>(i)) % kPartitions));
        }
        EXPECT_UCS(ugdr_transfer_wait(from));
    }
    looks.join();
    EXPECT_EQ(wrong, 0u);
}

// By tag, and in order; more than letters have room.
TEST_F(PreparedOnce, MatchedByTagAndOrder)
{
    constexpr unsigned kTransfers = 40;
    connect(false);
    std::vector<uint64_t> from(kTransfers), to(kTransfers);
    std::vector<ugdr_transfer_h> senders, receivers;
    for (unsigned i = 0; i < kTransfers; ++i) {
        senders.push_back(make(a(), UGDR_TRANSFER_SEND, &from[i], 8, 1, i % 4));
    }
    for (unsigned i = 0; i < kTransfers; ++i) { // tag by tag
        receivers.push_back(make(b(), UGDR_TRANSFER_RECV, &to[i], 8, 1, i / 10));
    }
    EXPECT_TRUE(eventually([&] {
        return std::ranges::count_if(transfers_, [](ugdr_transfer_h one) {
                   return ugdr_transfer_test_match(one) == UCS_OK;
               }) == static_cast<long>(transfers_.size());
    }));
    for (unsigned i = 0; i < kTransfers; ++i) {
        from[i] = i + 1;
        EXPECT_UCS(ugdr_transfer_start(senders[i]));
        EXPECT_UCS(ugdr_transfer_start(receivers[i]));
        EXPECT_UCS(ugdr_transfer_ready(senders[i], 0));
    }
    for (unsigned i = 0; i < kTransfers; ++i) {
        EXPECT_UCS(ugdr_transfer_wait(receivers[i]));
        EXPECT_UCS(ugdr_transfer_wait(senders[i]));
        EXPECT_EQ(to[i], i % 10 * 4 + i / 10 + 1);
    }
}

// The last can be given up, and others made, as often as one likes.
TEST_F(PreparedOnce, OneAfterTheOther)
{
    connect(false);
    for (unsigned i = 0; i < 50; ++i) {
        ugdr_transfer_h from = sender(), to = receiver();
        match(from, to);
        out_[7] = i + 1;
        EXPECT_UCS(ugdr_transfer_start(to));
        EXPECT_UCS(ugdr_transfer_start(from));
        EXPECT_UCS(ugdr_transfer_ready(from, 0));
        EXPECT_UCS(ugdr_transfer_wait(to));
        EXPECT_UCS(ugdr_transfer_wait(from));
        EXPECT_EQ(in_[7], i + 1);
        forget(to);
        forget(from);
    }
}

TEST_F(PreparedOnce, WhatIsRefused)
{
    connect(false);
    ugdr_transfer_h made = nullptr;
    const auto refused = [&](const std::function<void(ugdr_transfer_params_t&)>& change,
                             ucs_status_t expected = UCS_ERR_INVALID_PARAM) {
        ugdr_transfer_params_t params = params_of(a(), out_.data(), 8192, 4, 1);
        change(params);
        EXPECT_EQ(ugdr_transfer_create(a().context, UGDR_TRANSFER_SEND, &params, &made), expected);
    };
    refused([](auto& p) { p.peer = nullptr; });
    refused([](auto& p) { p.buffer = nullptr; });
    refused([](auto& p) { p.length = 0; });
    refused([](auto& p) { p.length = SIZE_MAX - 3; });
    refused([](auto& p) { p.partitions = 0; });
    refused([](auto& p) { p.partitions = 5; });
    refused([](auto& p) { p.partitions = 1u << 17; });
    refused([](auto& p) { p.field_mask = 0; });
    refused([](auto& p) { p.field_mask |= 1ull << 40; });
    refused([&](auto& p) { p.peer = b().peer; });
    refused([](auto& p) {
        p.field_mask |= UGDR_TRANSFER_PARAM_FIELD_ARRIVALS;
        p.arrivals = 0;
    });
    EXPECT_EQ(ugdr_transfer_create(nullptr, UGDR_TRANSFER_SEND, nullptr, nullptr),
              UCS_ERR_INVALID_PARAM);
    ugdr_peer_h alone = nullptr;
    EXPECT_UCS(ugdr_peer_create(a().context, nullptr, &alone));
    refused([&](auto& p) { p.peer = alone; }, UCS_ERR_NOT_CONNECTED);

    ugdr_transfer_h from = sender(0, 4), to = receiver(0, 2);
    EXPECT_EQ(ugdr_transfer_start(from), UCS_ERR_NOT_CONNECTED) << "not matched";
    match(from, to);
    int is = 0;
    EXPECT_EQ(ugdr_transfer_ready(from, 0), UCS_ERR_INVALID_PARAM) << "not started";
    EXPECT_EQ(ugdr_transfer_ready(to, 0), UCS_ERR_INVALID_PARAM) << "the receiver's";
    EXPECT_EQ(ugdr_transfer_arrived(from, 0, &is), UCS_ERR_INVALID_PARAM) << "the sender's";
    EXPECT_EQ(ugdr_transfer_prepare(to), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_transfer_start(from));
    EXPECT_EQ(ugdr_transfer_start(from), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_transfer_destroy(from), UCS_ERR_BUSY);
    EXPECT_UCS(ugdr_transfer_start(to));
    EXPECT_EQ(ugdr_transfer_destroy(to), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_peer_destroy(a().peer), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_context_destroy(a().context, 0), UCS_ERR_BUSY);
    EXPECT_EQ(ugdr_transfer_ready(from, 4), UCS_ERR_INVALID_PARAM) << "there is none";
    EXPECT_EQ(ugdr_transfer_ready(from, ~0u), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_ready_on(from, 3, 2, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_ready_on(from, 1, ~0u, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_start_on(from, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_arrived(to, 2, &is), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_arrived(to, 0, nullptr), UCS_ERR_INVALID_PARAM);
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_UCS(ugdr_transfer_ready(from, i));
        EXPECT_EQ(ugdr_transfer_ready(from, i), UCS_ERR_INVALID_PARAM) << "twice";
    }
    EXPECT_UCS(ugdr_transfer_wait(to));
    EXPECT_UCS(ugdr_transfer_wait(from));
    EXPECT_EQ(ugdr_transfer_ready(from, 0), UCS_ERR_INVALID_PARAM) << "complete";
    for (const auto call : {ugdr_transfer_test_match, ugdr_transfer_destroy, ugdr_transfer_start,
                            ugdr_transfer_prepare, ugdr_transfer_test, ugdr_transfer_wait}) {
        EXPECT_EQ(call(nullptr), UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(ugdr_transfer_device(from, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_transfer_engine(from, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_UCS(ugdr_peer_destroy(alone));
}

// Both sides are told.
TEST_F(PreparedOnce, DifferentLengths)
{
    connect(false);
    ugdr_transfer_h from = make(a(), UGDR_TRANSFER_SEND, out_.data(), 4096),
                    to = make(b(), UGDR_TRANSFER_RECV, in_.data(), 8192);
    for (ugdr_transfer_h transfer : {from, to}) {
        EXPECT_TRUE(eventually(
            [&] { return ugdr_transfer_test_match(transfer) == UCS_ERR_INVALID_PARAM; }));
        EXPECT_EQ(ugdr_transfer_start(transfer), UCS_ERR_INVALID_PARAM);
    }
}

// ---- peers that are gone: nothing hangs

// All at a time, since each is noticed after some seconds: before the match, before the receiver or
// the sender has started, before a partition is ready, in the middle of partitions.
TEST_F(PreparedOnce, PeersThatAreGone)
{
    connect(false, 5);
    ugdr_transfer_h unmatched = sender(0);
    const auto pair = [&](size_t which) {
        ugdr_transfer_h from = sender(which, 4), to = receiver(which, 4);
        match(from, to);
        return std::pair(from, to);
    };
    const auto gone = [&](size_t side, ugdr_transfer_h transfer) {
        EXPECT_UCS(ugdr_context_destroy(sides_[side].context, UGDR_DESTROY_FORCE));
        sides_[side].context = nullptr;
        std::erase(transfers_, transfer);
    };
    gone(1, nullptr);
    const auto [waits_for_start, b1] = pair(1);
    EXPECT_UCS(ugdr_transfer_start(waits_for_start));
    EXPECT_UCS(ugdr_transfer_ready(waits_for_start, 0));
    gone(3, b1);
    const auto [a2, waits_for_all] = pair(2);
    EXPECT_UCS(ugdr_transfer_start(waits_for_all));
    gone(4, a2);
    const auto [a3, b3] = pair(3);
    const ugdr_transfer_h waits_for_some = b3; // a lambda does not capture b3 itself
    EXPECT_UCS(ugdr_transfer_start(a3));
    EXPECT_UCS(ugdr_transfer_start(waits_for_some));
    EXPECT_UCS(ugdr_transfer_ready(a3, 1));
    EXPECT_TRUE(eventually([&] { return arrived(waits_for_some, 1); }));
    gone(6, a3);
    const auto [sends, b4] = pair(4);
    EXPECT_UCS(ugdr_transfer_start(sends));
    EXPECT_UCS(ugdr_transfer_start(b4));
    EXPECT_UCS(ugdr_transfer_ready(sends, 0));
    EXPECT_UCS(ugdr_transfer_prepare(sends));
    gone(9, b4);
    const auto is_death = [](ucs_status_t status) {
        return status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET;
    };
    for (unsigned i = 1; i < 4; ++i) {
        const ucs_status_t status = ugdr_transfer_ready(sends, i);
        EXPECT_TRUE(status == UCS_OK || is_death(status)) << ucs_status_string(status);
    }
    CUstream work = stream();
    EXPECT_UCS(ugdr_transfer_wait_on(waits_for_some, work));
    for (ugdr_transfer_h transfer : {waits_for_start, waits_for_all, waits_for_some, sends}) {
        const ucs_status_t status = ugdr_transfer_wait(transfer);
        EXPECT_TRUE(is_death(status)) << ucs_status_string(status);
        EXPECT_EQ(ugdr_transfer_start(transfer), status);
    }
    EXPECT_TRUE(eventually([&] { return ugdr_transfer_test_match(unmatched) < 0; }));
    EXPECT_CUDA(cuStreamSynchronize(work)) << "the stream goes on";
}

// A context that ends by force lets streams go on.
TEST_F(PreparedOnce, Force)
{
    connect(false);
    uint32_t* in = on_gpu<uint32_t>(64);
    ugdr_transfer_h from = make(a(), UGDR_TRANSFER_SEND, out_.data(), 256),
                    to = make(b(), UGDR_TRANSFER_RECV, in, 256);
    match(from, to);
    EXPECT_UCS(ugdr_transfer_start(to));
    CUstream work = stream();
    EXPECT_UCS(ugdr_transfer_wait_on(to, work));
    EXPECT_EQ(cuStreamQuery(work), CUDA_ERROR_NOT_READY);
    EXPECT_UCS(ugdr_context_destroy(b().context, UGDR_DESTROY_FORCE));
    EXPECT_CUDA(cuStreamSynchronize(work));
    b().context = nullptr;
    std::erase(transfers_, to);
}

} // namespace
} // namespace synctest
