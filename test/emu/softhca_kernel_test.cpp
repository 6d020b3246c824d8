// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Transfers while a kernel runs, and for which a kernel waits: on a real GPU only.
#include "softhca_cuda_fixture.hpp"
#include "softhca_fixture.hpp"

#include <cstring>

namespace {

constexpr std::uint32_t kSize = 1 << 20;

// One thread of each block loops until the word is not zero.
constexpr const char* kSource = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 word)
{
    .reg .u64 %address;
    .reg .u32 %value;
    .reg .pred %zero;
    ld.param.u64 %address, [word];
again:
    ld.volatile.u32 %value, [%address];
    setp.eq.u32 %zero, %value, 0;
    @%zero bra again;
    ret;
}
)";

// A kernel that runs until a word in memory of the host or of the device is set.
class Kernel {
  public:
    explicit Kernel(const Cuda& cuda) : cuda_(cuda)
    {
        CUmodule module;
        EXPECT_CUDA(CUDA_CALL(cuda_, cuModuleLoadData)(&module, kSource));
        EXPECT_CUDA(CUDA_CALL(cuda_, cuModuleGetFunction)(&function_, module, "spin"));
        EXPECT_CUDA(CUDA_CALL(cuda_, cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING));
        void* word = nullptr;
        EXPECT_CUDA(CUDA_CALL(cuda_, cuMemHostAlloc)(&word, 4096, 0));
        word_ = static_cast<volatile unsigned*>(word);
    }
    void start(unsigned blocks = 1, unsigned threads = 1)
    {
        *word_ = 0;
        start_on(reinterpret_cast<CUdeviceptr>(word_), blocks, threads);
    }
    void start_on(CUdeviceptr word, unsigned blocks = 1, unsigned threads = 1)
    {
        void* arguments[] = {&word};
        EXPECT_CUDA(CUDA_CALL(cuda_, cuLaunchKernel)(function_, blocks, 1, 1, threads, 1, 1, 0,
                                                     stream_, arguments, nullptr));
    }
    bool is_running() const
    {
        return CUDA_CALL(cuda_, cuStreamQuery)(stream_) == CUDA_ERROR_NOT_READY;
    }
    void await() { EXPECT_CUDA(CUDA_CALL(cuda_, cuStreamSynchronize)(stream_)); }
    void stop()
    {
        *word_ = 1;
        await();
    }

  private:
    const Cuda& cuda_;
    CUfunction function_ = nullptr;
    CUstream stream_ = nullptr;
    volatile unsigned* word_ = nullptr;
};

// Registered memory of one kind: room for two messages.
struct Memory {
    Memory(Device& device, const Cuda& owner, Kind kind) : cuda(owner)
    {
        start = cuda.allocate(2 * kSize, kind);
        CUdeviceptr pages = 0;
        const int fd = cuda.export_pages(start, 2 * kSize, pages);
        mr = ibv_reg_dmabuf_mr(device.pd, start - pages, 2 * kSize, start, fd, kAllAccess);
        EXPECT_NE(mr, nullptr);
        close(fd);
    }
    ~Memory() { EXPECT_EQ(ibv_dereg_mr(mr), 0); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void set(unsigned seed)
    {
        std::vector<unsigned char> bytes(kSize);
        fill(bytes.data(), kSize, seed);
        cuda.put(start, bytes.data(), kSize);
    }
    bool holds(unsigned seed, std::size_t offset = 0)
    {
        std::vector<unsigned char> bytes(kSize);
        cuda.get(bytes.data(), start + offset, kSize);
        return is_filled(bytes.data(), kSize, seed);
    }
    const Cuda& cuda;
    CUdeviceptr start = 0;
    ibv_mr* mr = nullptr;
};

int post(Endpoint& endpoint, ibv_wr_opcode opcode, const Memory& own, const Address& target,
         std::uint32_t size = kSize, std::size_t offset = 0)
{
    ibv_sge list = {own.start + offset, size, own.mr->lkey};
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {target.buffer, target.rkey};
    return endpoint.post(wr);
}

// That the work request completes well while the kernel runs.
void expect_done(Endpoint& endpoint, Kernel& kernel)
{
    const ibv_wc wc = endpoint.next();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_TRUE(kernel.is_running());
}

// Both processes' kernels spin from before the first transfer until after the last.
void transfer_while_spinning(Kind kind, unsigned blocks, unsigned threads)
{
    Child child([=](Child::Link& link) {
        Cuda cuda;
        Device device;
        Memory memory(device, cuda, kind);
        memory.set(1);
        Kernel kernel(cuda);
        Endpoint endpoint(device);
        link.put(endpoint.address());
        endpoint.connect(link.get<Address>());
        ibv_sge list = {memory.start, kSize, memory.mr->lkey};
        ibv_recv_wr wr = {0, nullptr, &list, 1};
        ibv_recv_wr* bad;
        ASSERT_EQ(ibv_post_recv(endpoint.qp, &wr, &bad), 0);
        kernel.start(blocks, threads);
        link.put(Address{0, 0, {}, memory.start, memory.mr->rkey});
        expect_done(endpoint, kernel); // of the SEND
        link.get<char>();
        EXPECT_TRUE(kernel.is_running());
        kernel.stop();
        EXPECT_TRUE(memory.holds(3));
        link.put('e');
    });
    Cuda cuda;
    Device device;
    Memory memory(device, cuda, kind);
    memory.set(2);
    Kernel kernel(cuda);
    Endpoint endpoint(device);
    endpoint.connect(child.link().get<Address>());
    child.link().put(endpoint.address());
    const auto target = child.link().get<Address>();
    kernel.start(blocks, threads);
    ASSERT_EQ(post(endpoint, IBV_WR_RDMA_READ, memory, target, kSize, kSize), 0);
    expect_done(endpoint, kernel);
    ASSERT_EQ(post(endpoint, IBV_WR_RDMA_WRITE, memory, target), 0);
    expect_done(endpoint, kernel);
    kernel.stop();
    EXPECT_TRUE(memory.holds(1, kSize));
    memory.set(3);
    kernel.start(blocks, threads);
    ASSERT_EQ(post(endpoint, IBV_WR_SEND, memory, target), 0);
    expect_done(endpoint, kernel);
    child.link().put('s');
    kernel.stop();
    child.link().get<char>();
    child.join();
}

TEST(DISABLED_Kernel, SpinsBesideAllocations)
{
    transfer_while_spinning(Kind::device, 1, 1);
}
TEST(DISABLED_Kernel, SpinsBesidePools)
{
    transfer_while_spinning(Kind::pool, 1, 1);
}
TEST(DISABLED_Kernel, SpinsBesideMappings)
{
    transfer_while_spinning(Kind::vmm, 1, 1);
}
TEST(DISABLED_Kernel, TakesTheWholeGpu)
{
    transfer_while_spinning(Kind::device, 2048, 1024);
}

// A kernel that polls device memory sees what arrives there, the flag after the data.
TEST(DISABLED_Kernel, SeesWhatArrives)
{
    Child child([](Child::Link& link) {
        Cuda cuda;
        Device device;
        Memory memory(device, cuda, Kind::device), flag(device, cuda, Kind::device);
        const std::vector<unsigned char> zeros(kSize);
        cuda.put(flag.start, zeros.data(), kSize);
        Kernel kernel(cuda);
        Endpoint endpoint(device);
        link.put(endpoint.address());
        endpoint.connect(link.get<Address>());
        kernel.start_on(flag.start);
        link.put(Address{0, 0, {}, memory.start, memory.mr->rkey});
        link.put(Address{0, 0, {}, flag.start, flag.mr->rkey});
        kernel.await();
        EXPECT_TRUE(memory.holds(4));
        link.put('e');
    });
    Cuda cuda;
    Device device;
    Memory source(device, cuda, Kind::device);
    source.set(4);
    Endpoint endpoint(device);
    endpoint.connect(child.link().get<Address>());
    child.link().put(endpoint.address());
    const auto target = child.link().get<Address>();
    const auto flag = child.link().get<Address>();
    ASSERT_EQ(post(endpoint, IBV_WR_RDMA_WRITE, source, target), 0);
    ASSERT_EQ(post(endpoint, IBV_WR_RDMA_WRITE, source, flag, 4), 0);
    child.link().get<char>(); // nobody polls before
    EXPECT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(endpoint.next().status, IBV_WC_SUCCESS);
    child.join();
}

class Kernels : public ::testing::TestWithParam<const char*> {};

TEST_P(Kernels, OnARealGpu)
{
    if (!Cuda::is_real()) {
        GTEST_SKIP() << "the emulated GPU runs no kernels";
    }
    // Where a kernel has the whole GPU, none is left to copy within it.
    const bool full = std::string(GetParam()) == "TakesTheWholeGpu";
    EXPECT_TRUE(run_tests(std::string("DISABLED_Kernel.") + GetParam(),
                          {full ? "SOFTHCA_DEVICE_COPY=staged" : "SOFTHCA_DEVICE_COPY=alias"}));
}
INSTANTIATE_TEST_SUITE_P(Transfers, Kernels,
                         ::testing::Values("SpinsBesideAllocations", "SpinsBesidePools",
                                           "SpinsBesideMappings", "TakesTheWholeGpu",
                                           "SeesWhatArrives"),
                         [](const auto& test) { return std::string(test.param); });

} // namespace
