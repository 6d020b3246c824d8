// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: stream memory operations in batches. What variables change about them is tested in
// processes of their own (softcuda_process_test.cpp).
#include "softcuda_fixture.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace std::chrono_literals;

namespace {

constexpr auto kLongEnough = 20ms; // for what must not happen

CUstreamBatchMemOpParams write64(const void* word, uint64_t value)
{
    CUstreamBatchMemOpParams p{};
    p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    p.writeValue.address = address_of(word);
    p.writeValue.value64 = value;
    return p;
}

CUstreamBatchMemOpParams wait64(const void* word, uint64_t value, unsigned how)
{
    CUstreamBatchMemOpParams p{};
    p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    p.waitValue.address = address_of(word);
    p.waitValue.value64 = value;
    p.waitValue.flags = how;
    return p;
}

CUstreamBatchMemOpParams other(CUstreamBatchMemOpType operation)
{
    CUstreamBatchMemOpParams p{};
    p.operation = operation;
    return p;
}

class SoftcudaMemop : public Softcuda {
  protected:
    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&words_), 4096, 0));
        words_[0] = words_[1] = 0;
        ASSERT_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    }

    uint64_t load(int word) { return std::atomic_ref(words_[word]).load(); }
    void store(int word, uint64_t value) { std::atomic_ref(words_[word]).store(value); }

    uint64_t* words_ = nullptr;
    CUstream stream_ = nullptr;
};

} // namespace

// What a node of a graph does: waits for the word to be free, then triggers.
TEST_F(SoftcudaMemop, ABatchRunsInItsOrder)
{
    store(0, 1);
    CUstreamBatchMemOpParams batch[] = {wait64(words_, 0, CU_STREAM_WAIT_VALUE_EQ),
                                        other(CU_STREAM_MEM_OP_BARRIER), write64(words_, 5),
                                        write64(words_ + 1, 7)};
    ASSERT_CUDA(cuStreamBatchMemOp(stream_, 4, batch, 0));
    std::this_thread::sleep_for(kLongEnough);
    EXPECT_EQ(load(0), 1u);
    EXPECT_EQ(load(1), 0u);
    store(0, 0);
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(0), 5u);
    EXPECT_EQ(load(1), 7u);
}

TEST_F(SoftcudaMemop, WordsOf32BitsAndWordsOfDeviceMemory)
{
    CUdeviceptr memory = allocate(64);
    ASSERT_CUDA(cuMemsetD8(memory, 0, 64));
    CUstreamBatchMemOpParams batch[] = {write64(pointer(memory), 1), write64(pointer(memory), 2),
                                        wait64(pointer(memory), 2, CU_STREAM_WAIT_VALUE_GEQ)};
    batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[0].writeValue.address += 8;
    batch[0].writeValue.value64 = 0xffffffff00000003;
    ASSERT_CUDA(cuStreamBatchMemOp(stream_, 3, batch, 0));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(contents(memory, 16),
              (std::vector<unsigned char>{2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}));
}

// The thread sanitizer looks at this: a word changes whole, however it is written.
TEST_F(SoftcudaMemop, AStreamWaitsForWhatIsCopied)
{
    const CUdeviceptr word = allocate(8);
    const auto wait_for = [&](uint64_t value) {
        CUstreamBatchMemOpParams wait = wait64(pointer(word), value, CU_STREAM_WAIT_VALUE_EQ);
        ASSERT_CUDA(cuStreamBatchMemOp(stream_, 1, &wait, 0));
        std::this_thread::sleep_for(kLongEnough);
        EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
    };
    ASSERT_CUDA(cuMemsetD8(word, 0, 8));
    const uint64_t value = 1;
    wait_for(value);
    CUstream copies;
    ASSERT_CUDA(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuMemcpyHtoDAsync(word, &value, 8, copies));
    ASSERT_CUDA(cuStreamSynchronize(copies));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    wait_for(0x200000001);
    ASSERT_CUDA(cuMemsetD32(word + 4, 2, 1));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
}

// The driver's limit: 256 are refused as a whole.
TEST_F(SoftcudaMemop, AtMost255InABatch)
{
    std::vector<CUstreamBatchMemOpParams> batch;
    for (uint64_t i = 1; i <= 256; ++i) {
        batch.push_back(write64(words_, i));
    }
    EXPECT_EQ(cuStreamBatchMemOp(stream_, 256, batch.data(), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamBatchMemOp(stream_, 0, batch.data(), 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamBatchMemOp(stream_, 1, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuStreamBatchMemOp(stream_, 1, batch.data(), 1), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(0), 0u);
    ASSERT_CUDA(cuStreamBatchMemOp(stream_, 255, batch.data(), 0));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(0), 255u);
}

TEST_F(SoftcudaMemop, OfABadBatchNothingRuns)
{
    for (const CUstreamBatchMemOpParams& bad :
         {write64(reinterpret_cast<char*>(words_) + 4, 1), write64(this, 1), wait64(words_, 1, 64),
          other(static_cast<CUstreamBatchMemOpType>(77))}) {
        CUstreamBatchMemOpParams batch[] = {write64(words_, 9), bad};
        EXPECT_EQ(cuStreamBatchMemOp(stream_, 2, batch, 0), CUDA_ERROR_INVALID_VALUE);
    }
    // An H200 sees an HCA's writes, and has no flush in a stream.
    CUstreamBatchMemOpParams flush[] = {write64(words_, 9),
                                        other(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)};
    EXPECT_EQ(cuStreamBatchMemOp(stream_, 2, flush, 0), CUDA_ERROR_NOT_SUPPORTED);
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(0), 0u);
}

TEST_F(SoftcudaMemop, ACaptureTakesABatchAsOneNode)
{
    CUstreamBatchMemOpParams batch[] = {write64(words_, 1), write64(words_, 2)};
    ASSERT_CUDA(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_CUDA(cuStreamBatchMemOp(stream_, 2, batch, 0));
    CUgraph graph = nullptr;
    size_t nodes = 0;
    ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
    EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_EQ(nodes, 1u);
    EXPECT_EQ(load(0), 0u);
}
