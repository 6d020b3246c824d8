// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: modules of PTX, and launches that run registered host functions.
#include "softcuda_fixture.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

namespace {

// What a compiler writes, with more comments.
constexpr char kPtx[] = R"(
// .entry not_this(
.version 6.0
.target sm_70
.address_size 64
/* nor
   .entry this( */
.visible .entry test_add(
	.param .u64 .ptr .global .align 4 test_add_param_0,
	.param .u32 test_add_param_1,
	.param .align 8 .b8 test_add_param_2[24]
)
.maxntid 256, 1, 1
{
	.reg .b64 %rd<2>;
	{ ret; }
}
.func helper(.param .b32 x) { ret; }
.entry test_nothing()
{
	ret;
}
.entry test_waits()
{
	ret;
}
)";

struct Amounts {
    uint64_t unused;
    uint32_t amount;
    char rest[12];
};
static_assert(sizeof(Amounts) == 24);

constexpr int kIllegalAddress = CUDA_ERROR_ILLEGAL_ADDRESS;

char* device_bytes(const softcuda_launch* launch, uint64_t address)
{
    softcuda_range range{};
    const auto* wanted = reinterpret_cast<const void*>(address);
    if (softcuda_kernel_memory(launch, wanted, &range) != 0) {
        return nullptr;
    }
    EXPECT_EQ(range.view, 0);
    return range.bytes + (address - range.address);
}

// Adds to as many words as there are threads, if the second parameter allows so many.
int add(const softcuda_launch* launch, void* const* parameters)
{
    uint64_t address = 0;
    uint32_t most = 0;
    Amounts amounts{};
    std::memcpy(&address, parameters[0], sizeof(address));
    std::memcpy(&most, parameters[1], sizeof(most));
    std::memcpy(&amounts, parameters[2], sizeof(amounts));
    auto* words = reinterpret_cast<uint32_t*>(device_bytes(launch, address));
    if (words == nullptr) {
        return kIllegalAddress;
    }
    for (uint32_t i = 0; i < launch->grid[0] * launch->block[0] && i < most; ++i) {
        words[i] += amounts.amount;
    }
    return 0;
}

std::atomic<int> nothings{0};

int nothing(const softcuda_launch*, void* const*)
{
    ++nothings;
    return 0;
}

std::atomic<bool> opened{false};
std::atomic<int> waiting{0};
const std::thread::id program = std::this_thread::get_id();
std::atomic<int> in_program{0};

// Until the program says so, which it cannot here in its own thread.
int waits(const softcuda_launch*, void* const*)
{
    ++waiting;
    if (std::this_thread::get_id() == program) {
        ++in_program;
        return 0;
    }
    while (!opened) {
        std::this_thread::yield();
    }
    return 0;
}

class SoftcudaKernel : public Softcuda {
  protected:
    static void SetUpTestSuite()
    {
        EXPECT_EQ(softcuda_kernel("test_add", add), 0);
        EXPECT_EQ(softcuda_kernel("test_nothing", nothing), 0);
        EXPECT_EQ(softcuda_kernel("test_nothing", add), -1);
        EXPECT_EQ(softcuda_kernel("test_waits", waits), 0);
    }

    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(cuModuleLoadData(&module_, kPtx));
        ASSERT_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        words_ = allocate(kWords * sizeof(uint32_t));
        ASSERT_CUDA(cuMemsetD32(words_, 5, kWords));
    }

    CUfunction function(const char* name)
    {
        CUfunction found = nullptr;
        EXPECT_CUDA(cuModuleGetFunction(&found, module_, name));
        return found;
    }

    // What is issued to the stream from now on waits until open() is called.
    void close()
    {
        ASSERT_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&gate_), sizeof(*gate_), 0));
        *gate_ = 0;
        ASSERT_CUDA(cuStreamWaitValue64(stream_, address_of(gate_), 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    void open() { std::atomic_ref(*gate_).store(1); }

    CUresult launch_add(CUdeviceptr address, uint32_t amount, unsigned blocks, unsigned threads)
    {
        uint32_t most = kWords;
        Amounts amounts{0, amount, {}};
        void* parameters[] = {&address, &most, &amounts};
        CUresult result = cuLaunchKernel(function("test_add"), blocks, 1, 1, threads, 1, 1, 0,
                                         stream_, parameters, nullptr);
        std::memset(&amounts, 0xff, sizeof(amounts)); // it was copied
        address = most = 0;
        return result;
    }

    std::vector<uint32_t> words()
    {
        std::vector<uint32_t> result(kWords);
        EXPECT_CUDA(cuMemcpyDtoH(result.data(), words_, kWords * sizeof(uint32_t)));
        return result;
    }

    static constexpr size_t kWords = 512;
    CUmodule module_ = nullptr;
    CUstream stream_ = nullptr;
    CUdeviceptr words_ = 0;
    uint64_t* gate_ = nullptr;
};

CUresult load(const std::string& image)
{
    CUmodule module = nullptr;
    return cuModuleLoadData(&module, image.c_str());
}

} // namespace

TEST_F(SoftcudaKernel, RunsTheRegisteredFunctionWithCopiesOfTheParameters)
{
    ASSERT_CUDA(launch_add(words_, 7, 2, 128));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    std::vector<uint32_t> expected(kWords, 5);
    std::fill_n(expected.begin(), 256, 12);
    EXPECT_EQ(words(), expected);
}

TEST_F(SoftcudaKernel, TakesParametersInOneBuffer)
{
    struct {
        CUdeviceptr address;
        uint32_t most;
        uint32_t padding;
        Amounts amounts;
    } buffer{words_, 3, 0, {0, 1, {}}};
    size_t size = sizeof(buffer);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    ASSERT_CUDA(
        cuLaunchKernel(function("test_add"), 1, 1, 1, 32, 1, 1, 0, stream_, nullptr, extra));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    std::vector<uint32_t> expected(kWords, 5);
    std::fill_n(expected.begin(), 3, 6);
    EXPECT_EQ(words(), expected);
    size = sizeof(buffer) - 1;
    EXPECT_EQ(cuLaunchKernel(function("test_add"), 1, 1, 1, 32, 1, 1, 0, stream_, nullptr, extra),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaKernel, RunsInTheOrderOfItsStream)
{
    close();
    ASSERT_CUDA(launch_add(words_, 1, 2, 256));
    ASSERT_CUDA(cuMemsetD32Async(words_, 9, 1, stream_));
    ASSERT_CUDA(launch_add(words_, 1, 2, 256));
    EXPECT_EQ(words(), std::vector<uint32_t>(kWords, 5));
    open();
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    std::vector<uint32_t> expected(kWords, 7);
    expected[0] = 10;
    EXPECT_EQ(words(), expected);
}

TEST_F(SoftcudaKernel, StopsNoThreadThatDoesNotWaitForIt)
{
    constexpr int kKernels = 3;
    CUstream streams[kKernels] = {};
    for (CUstream& stream : streams) {
        ASSERT_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        ASSERT_CUDA(
            cuLaunchKernel(function("test_waits"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    }
    EXPECT_CUDA(cuMemsetD32Async(words_, 6, kWords, stream_));
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    for (CUstream stream : streams) {
        EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    }
    while (waiting < kKernels) { // all at the same time
        std::this_thread::yield();
    }
    opened = true;
    for (CUstream stream : streams) {
        EXPECT_CUDA(cuStreamSynchronize(stream));
        EXPECT_CUDA(cuStreamDestroy(stream));
    }
    EXPECT_EQ(in_program, 0);
}

TEST_F(SoftcudaKernel, RefusesSizesAndHandlesAsTheDriverDoes)
{
    EXPECT_EQ(launch_add(words_, 1, 1, 257), CUDA_ERROR_INVALID_VALUE); // .maxntid
    EXPECT_EQ(launch_add(words_, 1, 0, 32), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch_add(words_, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    CUfunction kernel = function("test_nothing");
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 65536, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 1 << 20, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(function("test_add"), 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    const int before = nothings;
    ASSERT_CUDA(cuLaunchKernel(kernel, 1, 2, 3, 4, 5, 6, 0, stream_, nullptr, nullptr));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(nothings, before + 1);
    ASSERT_CUDA(cuModuleUnload(module_));
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SoftcudaKernel, KnowsTheKernelsOfTheModule)
{
    CUfunction found = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&found, module_, "not_this"), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuModuleGetFunction(&found, module_, "this"), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(cuModuleGetFunction(&found, module_, "helper"), CUDA_ERROR_NOT_FOUND);
    int most = 0;
    ASSERT_CUDA(
        cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function("test_add")));
    EXPECT_EQ(most, 256);
    CUmodule module = nullptr;
    ASSERT_CUDA(cuFuncGetModule(&module, function("test_nothing")));
    EXPECT_EQ(module, module_);
}

// Once in a process: each run of the test has a kernel of its own.
TEST_F(SoftcudaKernel, SaysWhichKernelItCannotRun)
{
    static int runs = 0;
    const std::string name = "test_unknown_" + std::to_string(runs++);
    const std::string image =
        ".version 6.0\n.target sm_70\n.entry test_nothing { ret; }\n.entry " + name + " { ret; }\n";
    CUmodule module = nullptr;
    CUfunction unknown = nullptr;
    ASSERT_CUDA(cuModuleLoadData(&module, image.c_str()));
    ASSERT_CUDA(cuModuleGetFunction(&unknown, module, name.c_str()));
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(cuLaunchKernel(unknown, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
                  CUDA_ERROR_NOT_SUPPORTED);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("kernel " + name), said.npos);
    EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
    EXPECT_CUDA(cuModuleUnload(module));
}

TEST_F(SoftcudaKernel, RefusesWhatIsNoPtx)
{
    const std::string head = ".version 6.0\n.target sm_70\n";
    EXPECT_CUDA(load(head));
    EXPECT_EQ(load(""), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(load("a program"), CUDA_ERROR_INVALID_IMAGE);
    EXPECT_EQ(load(".version 6.0\n"), CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(load(head + ".entry a( .param .u64 )"), CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(load(head + ".entry a( .param .pred a ) { ret; }"), CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(load(head + ".entry a() { ret;"), CUDA_ERROR_INVALID_PTX);
    EXPECT_EQ(load(".version 8.7\n.target sm_100a\n"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_EQ(load(head + ".entry test_unknown() { ret; }"), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(load("\177ELF\2"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaKernel, RefusesAModuleOfAContextThatHasEnded)
{
    CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
    ASSERT_CUDA(cuCtxCreate(&context, nullptr, 0, 0));
#else
    ASSERT_CUDA(cuCtxCreate(&context, 0, 0));
#endif
    CUmodule module = nullptr;
    ASSERT_CUDA(cuModuleLoadData(&module, kPtx));
    CUfunction kernel = nullptr;
    ASSERT_CUDA(cuModuleGetFunction(&kernel, module, "test_nothing"));
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE); // a stream of another context
    ASSERT_CUDA(cuCtxDestroy(context));
    EXPECT_EQ(cuModuleGetFunction(&kernel, module, "test_nothing"), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SoftcudaKernel, ReachesWhatTheDeviceReaches)
{
    CUdeviceptr managed = 0;
    ASSERT_CUDA(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    uint32_t* pinned = nullptr;
    ASSERT_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 64, 0));
    auto* shared = static_cast<uint32_t*>(pointer(managed));
    *shared = *pinned = 1;
    ASSERT_CUDA(launch_add(managed, 1, 1, 1));
    ASSERT_CUDA(launch_add(address_of(pinned), 2, 1, 1));
    ASSERT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(*shared, 2u);
    EXPECT_EQ(*pinned, 3u);
}

TEST_F(SoftcudaKernel, FailsForGoodWhereTheDeviceCannotReach)
{
    CUevent event = nullptr;
    ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    uint32_t on_stack = 0;
    close();
    ASSERT_CUDA(launch_add(address_of(&on_stack), 1, 1, 1));
    ASSERT_CUDA(cuEventRecord(event, stream_));
    open();
    EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuMemcpyDtoH(&on_stack, words_, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_CUDA(cuDevicePrimaryCtxReset(0));
    ASSERT_CUDA(cuDevicePrimaryCtxRetain(&context_, 0));
    EXPECT_CUDA(cuMemAlloc(&memory, 1));
    ASSERT_CUDA(cuDevicePrimaryCtxRelease(0));
}
