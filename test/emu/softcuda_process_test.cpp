// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda across the borders of a process: CPU touches, dmabuf, IPC, fork, the environment, and
// the look-up and counting of entry points.
#include "../tap.hpp"
#include "softcuda_fixture.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

namespace {

class SoftcudaProcess : public Softcuda {
  protected:
    void SetUp() override
    {
        Softcuda::SetUp();
        testing::GTEST_FLAG(death_test_style) = "threadsafe";
    }

    int export_dmabuf(CUdeviceptr address, size_t size, CUresult expected = CUDA_SUCCESS)
    {
        int fd = -1;
        EXPECT_EQ(cuMemGetHandleForAddressRange(&fd, address, size,
                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                  expected);
        return fd;
    }
};

// Two ends of a channel to a second process, which begins its life before CUDA is used in the
// first.
class Peer {
  public:
    explicit Peer(const std::function<int(int socket)>& body)
    {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid_ = fork();
        if (pid_ == 0) {
            close(ends[0]);
            _exit(body(ends[1]));
        }
        close(ends[1]);
        socket_ = ends[0];
    }
    ~Peer() { close(socket_); }
    int socket() const { return socket_; }
    pid_t pid() const { return pid_; }
    int wait()
    {
        int status = -1;
        EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
        return status;
    }

  private:
    pid_t pid_;
    int socket_;
};

template <typename Value>
bool put(int socket, const Value& value)
{
    return send(socket, &value, sizeof(value), MSG_NOSIGNAL) == sizeof(value);
}
template <typename Value>
bool take(int socket, Value& value)
{
    return recv(socket, &value, sizeof(value), MSG_WAITALL) == sizeof(value);
}

bool use_device_0()
{
    CUcontext context = nullptr;
    return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
           cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

// This program again, in another environment, doing one thing; see main().
int run_as(const std::string& environment, const std::string& task)
{
    std::string command = "env " + environment + " GDR_TEST_TASK=" + task + " /proc/" +
                          std::to_string(getpid()) + "/exe";
    int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK_OR_FAIL(condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

// ---- tasks that need a process where CUDA has not been used yet

int refuse_before_init()
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    CHECK_OR_FAIL(cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK_OR_FAIL(cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK_OR_FAIL(cuMemAlloc(&memory, 4096) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK_OR_FAIL(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

// NVIDIA's own runtime libraries ask for these tables when they begin. Said once.
int refuse_tables()
{
    for (const bool first : {true, false}) {
        const CUuuid any{};
        const void* table = nullptr;
        testing::internal::CaptureStderr();
        const CUresult result = cuGetExportTable(&table, &any);
        const std::string said = testing::internal::GetCapturedStderr();
        CHECK_OR_FAIL(result == CUDA_ERROR_NOT_SUPPORTED);
        CHECK_OR_FAIL((said.find("/exe needs") != said.npos) == first); // as run_as() starts it
        CHECK_OR_FAIL((said.find("nvcc -cudart shared") != said.npos) == first);
        CHECK_OR_FAIL(said.empty() != first);
    }
    return 0;
}

int no_devices()
{
    return cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1;
}

int devices_named_twice()
{
    return cuInit(0) == CUDA_ERROR_INVALID_DEVICE ? 0 : 1;
}

// The numbers in the machine, by the PCI address, that SEEN names one after the other.
int visible_devices()
{
    const std::string expected = std::getenv("SEEN");
    int count = -1;
    CHECK_OR_FAIL(cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS);
    std::string seen;
    for (CUdevice device = 0; device < count; ++device) {
        int bus = 0;
        CUdevice found = -1;
        CUuuid uuid;
        size_t memory = 0;
        char address[16];
        CHECK_OR_FAIL(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) ==
                      CUDA_SUCCESS);
        CHECK_OR_FAIL(cuDeviceGetPCIBusId(address, sizeof(address), device) == CUDA_SUCCESS &&
                      std::strtol(address + 5, nullptr, 16) == bus);
        CHECK_OR_FAIL(cuDeviceGetByPCIBusId(&found, address) == CUDA_SUCCESS && found == device);
        CHECK_OR_FAIL(cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS &&
                      std::memcmp(uuid.bytes,
                                  bus == 1   ? "00"
                                  : bus == 2 ? "01"
                                             : "02",
                                  2) == 0);
        CHECK_OR_FAIL(cuDeviceTotalMem(&memory, device) == CUDA_SUCCESS &&
                      memory == size_t(bus) << 20); // as SOFTCUDA_MEMORY says of the machine's
        seen += std::to_string(bus - 1);
    }
    CUdevice none;
    CHECK_OR_FAIL(seen.size() == 3 ||
                  cuDeviceGet(&none, static_cast<int>(seen.size())) == CUDA_ERROR_INVALID_DEVICE);
    if (seen != expected) {
        std::fprintf(stderr, "CUDA_VISIBLE_DEVICES=%s shows %s\n",
                     std::getenv("CUDA_VISIBLE_DEVICES"), seen.c_str());
        return 1;
    }
    return 0;
}

int small_memory()
{
    CHECK_OR_FAIL(use_device_0());
    int count = 0;
    CHECK_OR_FAIL(cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 3);
    CUdeviceptr memory;
    CHECK_OR_FAIL(cuMemAlloc(&memory, 33 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_OR_FAIL(cuMemAlloc(&memory, 32 << 20) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemAlloc(&memory, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
}

// A dmabuf that is mapped keeps freed memory, and BAR1 bounds what is mapped at a time.
int small_bar1()
{
    constexpr size_t kSize = 16 << 20;
    CHECK_OR_FAIL(use_device_0());
    CUdeviceptr memory, again;
    int fd = -1;
    size_t free_before = 0, free_now = 0, total = 0;
    CHECK_OR_FAIL(cuMemGetInfo(&free_before, &total) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemAlloc(&memory, kSize) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemGetHandleForAddressRange(&fd, memory, 8 << 20,
                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                                0) == CUDA_SUCCESS);
    void* mapped = softcuda_dmabuf_map(fd);
    CHECK_OR_FAIL(mapped != nullptr);
    CHECK_OR_FAIL(softcuda_dmabuf_map(fd) == nullptr && errno == ENOMEM);
    CHECK_OR_FAIL(softcuda_peer_map(pointer(memory), 8 << 20) == nullptr && errno == ENOMEM);
    void* alias = softcuda_peer_map(pointer(memory), 1);
    CHECK_OR_FAIL(alias != nullptr && softcuda_unmap(alias) == 0 && softcuda_unmap(alias) == -1);
    close(fd);
    CHECK_OR_FAIL(cuMemFree(memory) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS &&
                  free_now == free_before - kSize);
    CHECK_OR_FAIL(cuMemAlloc(&again, 32 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_OR_FAIL(softcuda_unmap(mapped) == 0);
    CHECK_OR_FAIL(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS && free_now == free_before);
    CHECK_OR_FAIL(cuMemAlloc(&again, 32 << 20) == CUDA_SUCCESS);
    alias = softcuda_peer_map(pointer(again), 12 << 20);
    CHECK_OR_FAIL(alias != nullptr && softcuda_unmap(alias) == 0);
    return 0;
}

int slow_copies()
{
    CHECK_OR_FAIL(use_device_0());
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    CHECK_OR_FAIL(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemsetD8Async(memory, 1, 4096, stream) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuEventRecord(event, stream) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    CHECK_OR_FAIL(cuEventSynchronize(event) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuEventQuery(event) == CUDA_SUCCESS);
    return 0;
}

// What an HCA writes to the alias the device sees after a flush; what the device writes the HCA
// sees at once. Device 1 has no flush.
int flushed_writes()
{
    constexpr size_t kLength = 3 << 20;
    CHECK_OR_FAIL(use_device_0());
    const auto attribute = [](CUdevice_attribute which, CUdevice device) {
        int value = -1;
        cuDeviceGetAttribute(&value, which, device);
        return value;
    };
    constexpr auto kOrdering = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
    constexpr auto kOptions = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
    CHECK_OR_FAIL(attribute(kOrdering, 0) == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
    CHECK_OR_FAIL(attribute(kOptions, 0) == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    CHECK_OR_FAIL(attribute(kOrdering, 1) == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE);
    CHECK_OR_FAIL(attribute(kOptions, 1) == 0);
    CHECK_OR_FAIL(attribute(kOrdering, 2) == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
    for (const size_t length : {size_t{4096}, kLength}) {
        CUdeviceptr memory = 0;
        CHECK_OR_FAIL(cuMemAlloc(&memory, length) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuMemsetD8(memory, 1, length) == CUDA_SUCCESS);
        auto* alias =
            static_cast<char*>(softcuda_host_alias(reinterpret_cast<void*>(memory), length));
        const auto seen = [&] {
            char byte = 0;
            cuMemcpyDtoH(&byte, memory + length - 1, 1);
            return byte;
        };
        CHECK_OR_FAIL(alias != nullptr && alias[length - 1] == 1 && seen() == 1);
        std::memset(alias, 2, length);
        CHECK_OR_FAIL(seen() == 1);
        CHECK_OR_FAIL(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) ==
                      CUDA_SUCCESS);
        CHECK_OR_FAIL(seen() == 2);
        const char byte = 3;
        CHECK_OR_FAIL(cuMemcpyHtoD(memory + length - 1, &byte, 1) == CUDA_SUCCESS);
        CHECK_OR_FAIL(alias[length - 1] == 3 && seen() == 3);
    }
    CUcontext context;
    CHECK_OR_FAIL(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                             CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) ==
                  CUDA_ERROR_NOT_SUPPORTED);
    return 0;
}

// A stream that waits for a word of its device looks at what the device sees.
int flushed_words()
{
    CHECK_OR_FAIL(use_device_0());
    CUdeviceptr memory;
    CUstream stream;
    int flushes = 0;
    CHECK_OR_FAIL(cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemsetD8(memory, 0, 4096) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuDeviceGetAttribute(&flushes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0) ==
                      CUDA_SUCCESS &&
                  flushes == 1);
    auto* alias = static_cast<uint64_t*>(softcuda_host_alias(pointer(memory), 4096));
    // The second word tells how far the stream is: a device's write is seen by all.
    CHECK_OR_FAIL(cuStreamWaitValue64(stream, memory, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamWriteValue64(stream, memory + 8, 1, 0) == CUDA_SUCCESS);
    std::atomic_ref(alias[0]).store(1);
    usleep(20000);
    CHECK_OR_FAIL(std::atomic_ref(alias[1]).load() == 0);
    CHECK_OR_FAIL(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                             CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) ==
                  CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK_OR_FAIL(std::atomic_ref(alias[1]).load() == 1);
    // The stream's own flush.
    std::atomic_ref(alias[0]).store(2);
    CUstreamBatchMemOpParams batch[2] = {};
    batch[0].flushRemoteWrites.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    batch[1].waitValue.address = memory;
    batch[1].waitValue.value64 = 2;
    CHECK_OR_FAIL(cuStreamBatchMemOp(stream, 2, batch, 0) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    return 0;
}

int no_memops()
{
    CHECK_OR_FAIL(use_device_0());
    uint64_t* word;
    CUstream stream;
    int memops = 1;
    CUstreamBatchMemOpParams batch{};
    batch.operation = CU_STREAM_MEM_OP_BARRIER;
    CHECK_OR_FAIL(cuMemHostAlloc(reinterpret_cast<void**>(&word), 64, 0) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuDeviceGetAttribute(&memops, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                                       0) == CUDA_SUCCESS &&
                  memops == 0);
    CHECK_OR_FAIL(cuStreamWriteValue64(stream, address_of(word), 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_OR_FAIL(cuStreamWaitValue32(stream, address_of(word), 1, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_OR_FAIL(cuStreamBatchMemOp(stream, 1, &batch, 0) == CUDA_ERROR_NOT_SUPPORTED);
    return 0;
}

// Two hardware queues: two streams that wait are fine, the third gets no further than the one whose
// queue it shares.
int two_connections()
{
    CHECK_OR_FAIL(use_device_0());
    uint64_t* words;
    CUstream streams[3];
    CHECK_OR_FAIL(cuMemHostAlloc(reinterpret_cast<void**>(&words), 64, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; ++i) {
        words[i] = words[3 + i] = 0;
        CHECK_OR_FAIL(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuStreamWaitValue64(streams[i], address_of(words + i), 1, 0) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuStreamWriteValue64(streams[i], address_of(words + 3 + i), 1, 0) ==
                      CUDA_SUCCESS);
    }
    const auto passed = [&](int i) { return std::atomic_ref(words[3 + i]).load() == 1; };
    std::atomic_ref(words[1]).store(1);
    std::atomic_ref(words[2]).store(1);
    CHECK_OR_FAIL(cuStreamSynchronize(streams[1]) == CUDA_SUCCESS);
    usleep(20000);
    CHECK_OR_FAIL(!passed(0) && passed(1) && !passed(2));
    std::atomic_ref(words[0]).store(1);
    CHECK_OR_FAIL(cuStreamSynchronize(streams[2]) == CUDA_SUCCESS);
    CHECK_OR_FAIL(passed(0) && passed(2));
    return 0;
}

// A stream that waits and is full: who gives it more waits for room, others do not.
int full_queue()
{
    CHECK_OR_FAIL(use_device_0());
    uint64_t* words;
    CUcontext context;
    CUstream full, other;
    CHECK_OR_FAIL(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemHostAlloc(reinterpret_cast<void**>(&words), 64, 0) == CUDA_SUCCESS);
    std::fill_n(words, 8, 0);
    CHECK_OR_FAIL(cuStreamCreate(&full, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuStreamWaitValue64(full, address_of(words), 1, 0) == CUDA_SUCCESS);
    std::atomic<int> taken{0};
    std::thread filler([&] {
        cuCtxSetCurrent(context);
        for (uint64_t i = 1; i <= 10; ++i) {
            taken += cuStreamWriteValue64(full, address_of(words + 1), i, 0) == CUDA_SUCCESS;
        }
    });
    usleep(50000);
    const int before = taken;
    const bool other_goes_on = cuStreamWriteValue64(other, address_of(words), 1, 0) == CUDA_SUCCESS;
    filler.join();
    CHECK_OR_FAIL(before == 3 && other_goes_on && taken == 10);
    CHECK_OR_FAIL(cuStreamSynchronize(full) == CUDA_SUCCESS);
    CHECK_OR_FAIL(words[1] == 10);
    return 0;
}

} // namespace

TEST_F(SoftcudaProcess, BeforeInitAndWithOtherSettings)
{
    EXPECT_EQ(run_as("", "refuse_before_init"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_DEVICES=0", "no_devices"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_DEVICES=3 SOFTCUDA_MEMORY=32M", "small_memory"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_COPY_LATENCY_US=200000", "slow_copies"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_MEMORY=40M SOFTCUDA_BAR1=12M", "small_bar1"), 0);
    EXPECT_EQ(
        run_as("SOFTCUDA_DEVICES=3 SOFTCUDA_RDMA_ORDERING=flush,none,owner", "flushed_writes"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_RDMA_ORDERING=flush", "flushed_words"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_MEMOPS=0", "no_memops"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_CONNECTIONS=2", "two_connections"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_LAUNCH_QUEUE=4", "full_queue"), 0);
}

// ---- the CPU and device memory

// What is expected is what NVIDIA's driver 580 answers.
TEST_F(SoftcudaProcess, TheDevicesThatAreVisible)
{
    // The UUIDs, of which nothing up to the fourth digit differs.
    const std::string zero = "GPU-3030", one = "GPU-3031", two = "GPU-3032";
    const std::string whole = "GPU-30312073-6F66-7463-7564-612047505500";
    const std::pair<std::string, const char*> lists[] = {
        {"1", "1"},
        {"2,0", "20"},
        {"0,-1,1", "0"},
        {"0,7,1", "0"},
        {"0,abc,1", "0"},
        {"0,,1", "0"},
        {"0,", "0"},
        {"0, 1", "01"},
        {one, "1"},
        {whole + ",GPU-30302073", "10"},
        {whole + "0", "1"},
        {two + "," + one + "," + zero, "210"},
        {zero + ",GPU-zz," + one, "0"},
        {zero + ",1", "0"},
        {"0," + one, "0"},
    };
    for (const auto& [list, seen] : lists) {
        EXPECT_EQ(run_as("SOFTCUDA_DEVICES=3 SOFTCUDA_MEMORY=1M,2M,3M CUDA_VISIBLE_DEVICES='" +
                             list + "' SEEN=" + seen,
                         "visible_devices"),
                  0)
            << list;
    }
    for (const std::string& list :
         {std::string(), std::string("-1"), std::string("-1,0"), std::string("7,0"),
          std::string(",0"), std::string("NoDevFiles"), std::string("GPU-"), std::string("GPU-303"),
          "gpu-" + one.substr(4), one.substr(4) + "2073", one + "x"}) {
        EXPECT_EQ(run_as("SOFTCUDA_DEVICES=3 CUDA_VISIBLE_DEVICES='" + list + "'", "no_devices"), 0)
            << list;
    }
    for (const std::string& list : {std::string("0,0"), std::string("0,1,0"), one + "," + whole}) {
        EXPECT_EQ(
            run_as("SOFTCUDA_DEVICES=3 CUDA_VISIBLE_DEVICES='" + list + "'", "devices_named_twice"),
            0)
            << list;
    }
}

TEST_F(SoftcudaProcess, ACpuTouchOfDeviceMemoryIsFatal)
{
    CUdeviceptr memory = allocate(4096);
    auto* touched = static_cast<volatile char*>(pointer(memory));
    EXPECT_EXIT(
        {
            signal(SIGSEGV, SIG_DFL);
            *touched = 1;
        },
        testing::KilledBySignal(SIGSEGV), "");
    // The kernel on the program's behalf fares no better.
    int null = open("/dev/zero", O_RDONLY);
    EXPECT_EQ(read(null, pointer(memory), 10), -1);
    EXPECT_EQ(errno, EFAULT);
    close(null);
}

// ---- dmabuf

TEST_F(SoftcudaProcess, DmabufOfWholePagesAlone)
{
    const CUdeviceptr memory = allocate(100000);
    int fd = export_dmabuf(memory + 4096, 8192);
    EXPECT_EQ(lseek(fd, 0, SEEK_END), 8192);
    EXPECT_EQ(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    auto* mapped = static_cast<unsigned char*>(softcuda_dmabuf_map(fd));
    ASSERT_NE(mapped, nullptr);
    close(fd);
    auto bytes = pattern(8192);
    ASSERT_CUDA(cuMemcpyHtoD(memory + 4096, bytes.data(), 8192));
    EXPECT_EQ(std::memcmp(mapped, bytes.data(), 8192), 0);
    mapped[8191] = 1;
    EXPECT_EQ(contents(memory + 4096 + 8191, 1)[0], 1);
    // The mapping keeps naming the old memory.
    ASSERT_CUDA(cuMemFree(memory));
    ASSERT_EQ(allocate(100000), memory);
    ASSERT_CUDA(cuMemsetD8(memory, 0, 100000));
    mapped[0] = 77;
    EXPECT_EQ(contents(memory + 4096, 1)[0], 0);
    EXPECT_EQ(softcuda_unmap(mapped), 0);

    export_dmabuf(memory + 1, 4096, CUDA_ERROR_INVALID_VALUE);
    export_dmabuf(memory, 5000, CUDA_ERROR_INVALID_VALUE);
    export_dmabuf(memory, 0, CUDA_ERROR_INVALID_VALUE);
    export_dmabuf(memory, 106496, CUDA_ERROR_INVALID_VALUE); // a page too many, of nobody
    close(export_dmabuf(memory, 102400));
    const CUdeviceptr small = allocate(100);
    export_dmabuf(small, 4096, CUDA_ERROR_INVALID_VALUE);
    close(export_dmabuf(small & ~CUdeviceptr{4095}, 4096));
    EXPECT_EQ(
        cuMemGetHandleForAddressRange(&fd, memory, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1),
        CUDA_ERROR_NOT_SUPPORTED);
    ASSERT_CUDA(cuCtxSetCurrent(nullptr));
    export_dmabuf(memory, 4096, CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(SoftcudaProcess, DmabufByKindOfMemory)
{
    CUdeviceptr pool = 0, managed = 0;
    ASSERT_CUDA(cuMemAllocAsync(&pool, 4096, nullptr));
    // What a pool has mapped is exported from its beginning only.
    export_dmabuf(pool, 4096, CUDA_ERROR_INVALID_VALUE);
    constexpr auto mapping_base = static_cast<CUpointer_attribute>(19); // named by CUDA 11.8
    const auto mapping = attribute<CUdeviceptr>(mapping_base, pool);
    ASSERT_LT(mapping, pool);
    ASSERT_CUDA(cuMemcpyHtoD(pool, pattern(4096).data(), 4096));
    const int fd = export_dmabuf(mapping, pool + 4096 - mapping);
    auto* mapped = static_cast<unsigned char*>(softcuda_dmabuf_map(fd));
    ASSERT_NE(mapped, nullptr);
    EXPECT_EQ(
        std::vector<unsigned char>(mapped + (pool - mapping), mapped + (pool - mapping) + 4096),
        pattern(4096));
    EXPECT_EQ(softcuda_unmap(mapped), 0);
    close(fd);
    ASSERT_CUDA(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    export_dmabuf(managed, 4096, CUDA_ERROR_INVALID_VALUE);
    void* host = nullptr;
    ASSERT_CUDA(cuMemHostAlloc(&host, 4096, 0));
    export_dmabuf(address_of(host), 4096, CUDA_ERROR_INVALID_VALUE);
    host = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    export_dmabuf(address_of(host), 4096, CUDA_ERROR_INVALID_VALUE);
    munmap(host, 4096);
    ASSERT_CUDA(cuMemFreeAsync(pool, nullptr));
    ASSERT_CUDA(cuCtxSynchronize());
}

TEST_F(SoftcudaProcess, DmabufOverTwoMappings)
{
    constexpr size_t kGranule = size_t{2} << 20;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUdeviceptr range = 0;
    ASSERT_CUDA(cuMemAddressReserve(&range, 2 * kGranule, 0, 0, 0));
    for (int i = 0; i < 2; ++i) {
        CUmemGenericAllocationHandle handle = 0;
        ASSERT_CUDA(cuMemCreate(&handle, kGranule, &properties, 0));
        ASSERT_CUDA(cuMemMap(range + i * kGranule, kGranule, 0, handle, 0));
        ASSERT_CUDA(cuMemRelease(handle));
    }
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_CUDA(cuMemSetAccess(range, 2 * kGranule, &access, 1));
    int fd = export_dmabuf(range + kGranule - 4096, 8192);
    auto* mapped = static_cast<unsigned char*>(softcuda_dmabuf_map(fd));
    ASSERT_NE(mapped, nullptr);
    auto bytes = pattern(8192);
    std::memcpy(mapped, bytes.data(), 8192);
    EXPECT_EQ(contents(range + kGranule - 4096, 8192), bytes);
    EXPECT_EQ(softcuda_unmap(mapped), 0);
    close(fd);
    ASSERT_CUDA(cuMemUnmap(range, 2 * kGranule));
    ASSERT_CUDA(cuMemAddressFree(range, 2 * kGranule));
}

TEST_F(SoftcudaProcess, OtherFilesAreNoDmabufs)
{
    EXPECT_EQ(softcuda_dmabuf_map(-1), nullptr);
    EXPECT_EQ(errno, EBADF);
    int fd = memfd_create("other", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, 8192), 0);
    EXPECT_EQ(softcuda_dmabuf_map(fd), nullptr);
    EXPECT_EQ(errno, EBADF);
    close(fd);
}

// ---- two processes

TEST_F(SoftcudaProcess, IpcBetweenProcesses)
{
    EXPECT_EQ(run_as("", "ipc"), 0);
    CUdeviceptr memory = allocate(4096), opened;
    CUipcMemHandle handle;
    ASSERT_CUDA(cuIpcGetMemHandle(&handle, memory));
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_INVALID_CONTEXT); // one's own
    std::memset(&handle, 1, sizeof(handle));
    EXPECT_EQ(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaProcess, ShareableHandlesBetweenProcesses)
{
    EXPECT_EQ(run_as("", "shareable"), 0);
}

// As between two H100s: memory of a device that a process does not see opens, unless the two cannot
// reach each other.
TEST_F(SoftcudaProcess, MemoryOfADeviceThatIsNotSeen)
{
    EXPECT_EQ(run_as("OWNER=0 OPENER=1", "ipc"), 0);
    EXPECT_EQ(run_as("OWNER=1,0 OPENER=0,1", "ipc"), 0);
    EXPECT_EQ(run_as("OWNER=0 OPENER=1 LOCATION=-2", "shareable"), 0);
    EXPECT_EQ(run_as("OWNER=1,0 OPENER=0 LOCATION=-2", "shareable"), 0);
    EXPECT_EQ(run_as("OWNER=1,0 OPENER=0,1 LOCATION=1", "shareable"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_P2P=off OWNER=0 OPENER=1", "out_of_reach"), 0);
    EXPECT_EQ(run_as("SOFTCUDA_P2P=off OWNER=1,0 OPENER=0,1", "out_of_reach"), 0);
    EXPECT_NE(run_as("SOFTCUDA_P2P=off OWNER=1,0 OPENER=1", "out_of_reach"), 0);
}

namespace {

// What the process that is called so in the environment sees, if it says so.
void see_as(const char* who)
{
    if (const char* devices = std::getenv(who)) {
        setenv("CUDA_VISIBLE_DEVICES", devices, 1);
    }
}

int out_of_reach()
{
    Peer owner([](int socket) {
        see_as("OWNER");
        CUdeviceptr memory;
        CUipcMemHandle handle;
        int go = 0;
        CHECK_OR_FAIL(use_device_0() && cuMemAlloc(&memory, 4096) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuIpcGetMemHandle(&handle, memory) == CUDA_SUCCESS && put(socket, handle));
        CHECK_OR_FAIL(take(socket, go));
        return 0;
    });
    see_as("OPENER");
    CUipcMemHandle handle;
    CUdeviceptr opened = 0;
    CHECK_OR_FAIL(take(owner.socket(), handle) && use_device_0());
    CHECK_OR_FAIL(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
                  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    CHECK_OR_FAIL(put(owner.socket(), 1) && owner.wait() == 0);
    return 0;
}

int ipc()
{
    constexpr size_t kSize = 1 << 20;
    Peer owner([](int socket) {
        see_as("OWNER");
        CUdeviceptr memory;
        CUipcMemHandle handle;
        CHECK_OR_FAIL(use_device_0() && cuMemAlloc(&memory, kSize) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuMemsetD8(memory, 5, kSize) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuIpcGetMemHandle(&handle, memory + 100) == CUDA_SUCCESS);
        CHECK_OR_FAIL(put(socket, handle));
        CUdeviceptr freed;
        CHECK_OR_FAIL(cuMemAlloc(&freed, kSize) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuIpcGetMemHandle(&handle, freed) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuMemFree(freed) == CUDA_SUCCESS && put(socket, handle));
        int go = 0;
        CHECK_OR_FAIL(take(socket, go));
        unsigned char byte = 0;
        CHECK_OR_FAIL(cuMemcpyDtoH(&byte, memory + 10, 1) == CUDA_SUCCESS && put(socket, byte));
        CHECK_OR_FAIL(take(socket, go)); // is killed here
        return 1;
    });
    see_as("OPENER");
    CUipcMemHandle handle, freed;
    CUdeviceptr opened = 0, again = 0, third = 0;
    CHECK_OR_FAIL(take(owner.socket(), handle) && take(owner.socket(), freed) && use_device_0());
    constexpr unsigned kFlags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    CHECK_OR_FAIL(cuIpcOpenMemHandle(&third, freed, kFlags) == CUDA_ERROR_INVALID_VALUE);
    CHECK_OR_FAIL(cuIpcOpenMemHandle(&opened, handle, kFlags) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuIpcOpenMemHandle(&again, handle, kFlags) == CUDA_SUCCESS && again == opened);
    int device = -1;
    CHECK_OR_FAIL(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, opened) ==
                      CUDA_SUCCESS &&
                  device == 0); // that of the context, whosever the memory is
    size_t size = 0;
    unsigned char byte = 0;
    CHECK_OR_FAIL(cuMemGetAddressRange(nullptr, &size, opened) == CUDA_SUCCESS && size == kSize);
    int fd = -1;
    CHECK_OR_FAIL(cuMemGetHandleForAddressRange(&fd, opened, 4096,
                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                                0) == CUDA_ERROR_INVALID_VALUE);
    CHECK_OR_FAIL(cuMemcpyDtoH(&byte, opened + kSize - 1, 1) == CUDA_SUCCESS && byte == 5);
    CHECK_OR_FAIL(cuMemsetD8(opened, 6, kSize) == CUDA_SUCCESS);
    CHECK_OR_FAIL(put(owner.socket(), 1) && take(owner.socket(), byte) && byte == 6);
    // The memory outlives its owner while it is open, and nothing of it is left afterwards.
    kill(owner.pid(), SIGKILL);
    owner.wait();
    CHECK_OR_FAIL(cuMemcpyDtoH(&byte, opened, 1) == CUDA_SUCCESS && byte == 6);
    CHECK_OR_FAIL(cuIpcCloseMemHandle(opened) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuIpcCloseMemHandle(opened) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuIpcCloseMemHandle(opened) == CUDA_ERROR_INVALID_VALUE);
    CHECK_OR_FAIL(cuIpcOpenMemHandle(&third, handle, kFlags) == CUDA_ERROR_INVALID_HANDLE);
    return 0;
}

bool send_fd(int socket, int fd)
{
    char byte = 0;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_fd(int socket)
{
    char byte = 0;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec data{&byte, 1};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != nullptr) {
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    }
    return fd;
}

int shareable()
{
    constexpr size_t kGranule = size_t{2} << 20;
    auto map = [](CUmemGenericAllocationHandle handle) {
        CUdeviceptr address = 0;
        CUmemAccessDesc access{};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        bool mapped = cuMemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS &&
                      cuMemMap(address, kGranule, 0, handle, 0) == CUDA_SUCCESS &&
                      cuMemSetAccess(address, kGranule, &access, 1) == CUDA_SUCCESS;
        return mapped ? address : 0;
    };
    Peer owner([&](int socket) {
        see_as("OWNER");
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        CUmemGenericAllocationHandle handle = 0;
        int fd = -1, go = 0;
        CHECK_OR_FAIL(use_device_0());
        CHECK_OR_FAIL(cuMemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
        CUdeviceptr memory = map(handle);
        CHECK_OR_FAIL(memory != 0 && cuMemsetD8(memory, 3, kGranule) == CUDA_SUCCESS);
        CHECK_OR_FAIL(cuMemExportToShareableHandle(&fd, handle,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                   0) == CUDA_SUCCESS);
        CHECK_OR_FAIL(send_fd(socket, fd));
        // A dmabuf travels the same way.
        CHECK_OR_FAIL(cuMemGetHandleForAddressRange(&fd, memory, 4096,
                                                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                                    0) == CUDA_SUCCESS);
        CHECK_OR_FAIL(send_fd(socket, fd));
        CHECK_OR_FAIL(take(socket, go));
        unsigned char byte = 0;
        CHECK_OR_FAIL(cuMemcpyDtoH(&byte, memory, 1) == CUDA_SUCCESS && byte == 4);
        return 0;
    });
    see_as("OPENER");
    CHECK_OR_FAIL(use_device_0());
    int fd = receive_fd(owner.socket()), dmabuf = receive_fd(owner.socket());
    CUmemGenericAllocationHandle handle = 0;
    CHECK_OR_FAIL(
        cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
    close(fd);
    CUmemAllocationProp properties{};
    const char* location = std::getenv("LOCATION");
    CHECK_OR_FAIL(cuMemGetAllocationPropertiesFromHandle(&properties, handle) == CUDA_SUCCESS);
    CHECK_OR_FAIL(properties.location.id == (location != nullptr ? std::atoi(location) : 0));
    CUdeviceptr memory = map(handle);
    unsigned char byte = 0;
    CHECK_OR_FAIL(memory != 0 && cuMemcpyDtoH(&byte, memory, 1) == CUDA_SUCCESS && byte == 3);
    CHECK_OR_FAIL(cuMemsetD8(memory, 4, kGranule) == CUDA_SUCCESS);
    CHECK_OR_FAIL(cuMemGetHandleForAddressRange(&fd, memory, 4096,
                                                CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                                0) == CUDA_ERROR_INVALID_VALUE);
    auto* mapped = static_cast<unsigned char*>(softcuda_dmabuf_map(dmabuf));
    CHECK_OR_FAIL(mapped != nullptr && mapped[4095] == 4);
    CHECK_OR_FAIL(put(owner.socket(), 1));
    CHECK_OR_FAIL(owner.wait() == 0);
    CHECK_OR_FAIL(softcuda_dmabuf_map(dmabuf) == nullptr && errno == ENXIO);
    return 0;
}

} // namespace

TEST_F(SoftcudaProcess, AForkedChildIsNotInitialised)
{
    CUdeviceptr memory = allocate(4096);
    pid_t child = fork();
    if (child == 0) {
        CUcontext context;
        bool refused = cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                       cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED &&
                       cuMemFree(memory) == CUDA_ERROR_NOT_INITIALIZED &&
                       softcuda_host_alias(pointer(memory), 1) == nullptr;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_CUDA(cuMemFree(memory));
}

// ---- entry points

namespace {

void* entry_point(const char* name, int version)
{
    void* function = nullptr;
    return find_entry_point(name, &function, version) == CUDA_SUCCESS ? function : nullptr;
}

} // namespace

TEST_F(SoftcudaProcess, EntryPointsByVersion)
{
    EXPECT_EQ(entry_point("cuMemAlloc", 11070), reinterpret_cast<void*>(&cuMemAlloc));
    EXPECT_EQ(entry_point("cuInit", 2000), reinterpret_cast<void*>(&cuInit));
    EXPECT_NE(entry_point("cuCtxCreate", 3020), entry_point("cuCtxCreate", 11040));
    EXPECT_NE(entry_point("cuCtxCreate", 11040), entry_point("cuCtxCreate", 13000));
    EXPECT_NE(entry_point("cuLaunchKernel", 13000), nullptr);
    EXPECT_EQ(entry_point("cuNoSuchThing", 13000), nullptr);
}

TEST_F(SoftcudaProcess, TablesOfTheDriversOwnAreRefusedAndTheProgramIsNamed)
{
    EXPECT_EQ(run_as("", "refuse_tables"), 0);
}

TEST_F(SoftcudaProcess, WhatIsNotThereSaysSo)
{
    CUmodule module;
    EXPECT_EQ(cuModuleLoad(&module, "file"), CUDA_ERROR_NOT_SUPPORTED);
    const char* name = nullptr;
    ASSERT_CUDA(cuGetErrorName(CUDA_ERROR_NOT_SUPPORTED, &name));
    EXPECT_STREQ(name, "CUDA_ERROR_NOT_SUPPORTED");
    EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(1001), &name), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(name, nullptr);
}

TEST_F(SoftcudaProcess, CallsAreCounted)
{
    uint64_t all = softcuda_calls();
    uint64_t allocations = softcuda_call_count("cuMemAlloc");
    CUdeviceptr memory = allocate(4096);
    EXPECT_CUDA(cuMemFree(memory));
    EXPECT_EQ(softcuda_calls(), all + 2);
    EXPECT_EQ(softcuda_call_count("cuMemAlloc"), allocations + 1);
    EXPECT_EQ(softcuda_call_count("cuMemAlloc_v2"), allocations + 1);
    EXPECT_EQ(softcuda_call_count("cuMem"), 0u);
}

int main(int argc, char** argv)
{
    const std::pair<const char*, int (*)()> tasks[] = {
        {"refuse_before_init", refuse_before_init},
        {"refuse_tables", refuse_tables},
        {"no_devices", no_devices},
        {"devices_named_twice", devices_named_twice},
        {"visible_devices", visible_devices},
        {"small_memory", small_memory},
        {"small_bar1", small_bar1},
        {"slow_copies", slow_copies},
        {"flushed_writes", flushed_writes},
        {"flushed_words", flushed_words},
        {"no_memops", no_memops},
        {"two_connections", two_connections},
        {"full_queue", full_queue},
        {"out_of_reach", out_of_reach},
        {"ipc", ipc},
        {"shareable", shareable},
    };
    if (const char* task = std::getenv("GDR_TEST_TASK")) {
        for (auto [name, function] : tasks) {
            if (std::strcmp(name, task) == 0) {
                return function();
            }
        }
        return 2;
    }
    return run_tests(argc, argv);
}
