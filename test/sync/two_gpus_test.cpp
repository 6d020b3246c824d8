// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Each side on a GPU of its own: in the order of streams, and in graphs. (Kernels:
// kernels_test.cpp.)
#include "fixture.hpp"

namespace synctest {
namespace {

class TwoGpus : public Persistent {
  protected:
    static constexpr size_t kCount = 1000; // numbers in a message
    static constexpr int kRounds = 20;

    void SetUp() override
    {
        Persistent::SetUp();
        other_ = second_gpu();
        if (other_ == nullptr) {
            GTEST_SKIP() << "there is one GPU";
        }
        make(one_, context_);
        make(two_, other_);
    }

    // What was received in each round is kept.
    struct End {
        CUcontext context;
        CUstream stream;
        int *buffer, *kept;
    };
    void make(End& end, CUcontext context)
    {
        ASSERT_CUDA(cuCtxSetCurrent(context));
        end = {context, stream(), on_gpu<int>(kCount), on_gpu<int>(kCount * kRounds)};
    }

    static void fill(const End& end, int number)
    {
        EXPECT_CUDA(cuMemsetD32Async(address_of(end.buffer), static_cast<unsigned>(number), kCount,
                                     end.stream));
    }
    static void keep(const End& end, int round)
    {
        EXPECT_CUDA(cuMemcpyAsync(address_of(end.kept + kCount * static_cast<size_t>(round)),
                                  address_of(end.buffer), kCount * sizeof(int), end.stream));
    }

    // There and back, each side's part of all rounds.
    void enqueue_first()
    {
        ASSERT_CUDA(cuCtxSetCurrent(one_.context));
        for (int round = 0; round < kRounds; ++round) {
            fill(one_, round + 1);
            send(at_a_, to_b_, one_.stream, one_.buffer, kCount * sizeof(int));
            receive(at_a_, one_.stream, one_.buffer, kCount * sizeof(int));
            keep(one_, round);
        }
    }
    void enqueue_second()
    {
        ASSERT_CUDA(cuCtxSetCurrent(two_.context));
        for (int round = 0; round < kRounds; ++round) {
            receive(at_b_, two_.stream, two_.buffer, kCount * sizeof(int));
            keep(two_, round);
            fill(two_, -round - 1);
            send(at_b_, to_a_, two_.stream, two_.buffer, kCount * sizeof(int));
        }
    }

    void expect_all(const End& end, int sign)
    {
        ASSERT_CUDA(cuCtxSetCurrent(end.context));
        ASSERT_CUDA(cuStreamSynchronize(end.stream));
        const std::vector<int> kept = copy_of(end.kept, kCount * kRounds);
        for (size_t i = 0; i < kept.size(); ++i) {
            ASSERT_EQ(kept[i], sign * static_cast<int>(i / kCount + 1)) << i;
        }
        ASSERT_CUDA(cuMemsetD8(address_of(end.kept), 0, kept.size() * sizeof(int)));
    }

    CUcontext other_ = nullptr;
    End one_{}, two_{};
};

TEST_F(TwoGpus, InTheOrderOfStreams)
{
    enqueue_first();
    enqueue_second();
    expect_all(one_, -1);
    expect_all(two_, 1);
}

TEST_F(TwoGpus, InGraphs)
{
    const auto captured = [](const End& end, const std::function<void()>& enqueue) {
        CUgraph graph = nullptr;
        CUgraphExec executable = nullptr;
        EXPECT_CUDA(cuCtxSetCurrent(end.context));
        EXPECT_CUDA(cuStreamBeginCapture(end.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        enqueue();
        EXPECT_CUDA(cuStreamEndCapture(end.stream, &graph));
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_CUDA(cuGraphDestroy(graph));
        return executable;
    };
    CUgraphExec first = captured(one_, [this] { enqueue_first(); }),
                second = captured(two_, [this] { enqueue_second(); });
    for (int launch = 0; launch < 3; ++launch) {
        ASSERT_CUDA(cuCtxSetCurrent(two_.context));
        ASSERT_CUDA(cuGraphLaunch(second, two_.stream));
        ASSERT_CUDA(cuCtxSetCurrent(one_.context));
        ASSERT_CUDA(cuGraphLaunch(first, one_.stream));
        expect_all(one_, -1);
        expect_all(two_, 1);
    }
    EXPECT_CUDA(cuGraphExecDestroy(first));
    EXPECT_CUDA(cuGraphExecDestroy(second));
}

} // namespace
} // namespace synctest
