// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA runtime on softcuda: devices, errors, contexts and what is not there.
#include "../tap.hpp"
#include "softcudart_fixture.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

// ---- devices

TEST_F(Softcudart, EachThreadHasItsDevice)
{
    int count = 0, device = -1;
    ASSERT_CUDA(cudaGetDeviceCount(&count));
    EXPECT_EQ(count, 2);
    ASSERT_CUDA(cudaSetDevice(1));
    ASSERT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
    std::thread([] {
        int own = -1;
        EXPECT_CUDA(cudaGetDevice(&own));
        EXPECT_EQ(own, 0);
    }).join();
    EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
    ASSERT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
}

TEST_F(Softcudart, VersionsAndAttributes)
{
    int version = 0, value = 0, device = -1;
    ASSERT_CUDA(cudaRuntimeGetVersion(&version));
    EXPECT_EQ(version / 1000, CUDART_VERSION / 1000);
    ASSERT_CUDA(cudaDriverGetVersion(&version));
    EXPECT_GE(version, 12000);
    ASSERT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    EXPECT_EQ(value, 9);
    char bus_id[32] = {};
    ASSERT_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 1));
    ASSERT_CUDA(cudaDeviceGetByPCIBusId(&device, bus_id));
    EXPECT_EQ(device, 1);
    EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9), cudaErrorInvalidDevice);
}

TEST_F(Softcudart, PropertiesAreTheAttributes)
{
    struct {
        cudaDeviceProp properties;
        char behind[8];
    } p;
    std::memset(&p, 0x5a, sizeof(p));
    ASSERT_CUDA(cudaGetDeviceProperties(&p.properties, 1));
    EXPECT_STREQ(p.properties.name, "softcuda emulated GPU");
    EXPECT_EQ(std::string(p.behind, 8), std::string(8, 0x5a));
    size_t free = 0, total = 0;
    ASSERT_CUDA(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(p.properties.totalGlobalMem, total);
    const auto attribute = [](cudaDeviceAttr which) {
        int value = -1;
        EXPECT_CUDA(cudaDeviceGetAttribute(&value, which, 1));
        return value;
    };
    EXPECT_EQ(p.properties.warpSize, attribute(cudaDevAttrWarpSize));
    EXPECT_EQ(p.properties.memPitch, size_t(attribute(cudaDevAttrMaxPitch)));
    EXPECT_EQ(p.properties.maxGridSize[2], attribute(cudaDevAttrMaxGridDimZ));
    EXPECT_EQ(p.properties.multiProcessorCount, attribute(cudaDevAttrMultiProcessorCount));
    EXPECT_EQ(p.properties.maxTexture1D, 0);
    EXPECT_EQ(p.properties.pciBusID, attribute(cudaDevAttrPciBusId));
    EXPECT_EQ(p.properties.pciDomainID, attribute(cudaDevAttrPciDomainId));
    EXPECT_EQ(p.properties.unifiedAddressing, 1);
    EXPECT_EQ(p.properties.memoryBusWidth, attribute(cudaDevAttrGlobalMemoryBusWidth));
    EXPECT_EQ(p.properties.l2CacheSize, attribute(cudaDevAttrL2CacheSize));
    EXPECT_EQ(p.properties.sharedMemPerMultiprocessor,
              size_t(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)));
    EXPECT_EQ(p.properties.managedMemory, 1);
    EXPECT_EQ(p.properties.canUseHostPointerForRegisteredMem, 1);
    EXPECT_EQ(p.properties.reservedSharedMemPerBlock, 0u);
#if CUDART_VERSION >= 12000
    EXPECT_EQ(p.properties.hostRegisterSupported, 1);
    EXPECT_EQ(p.properties.memoryPoolsSupported, 1);
    EXPECT_EQ(p.properties.gpuDirectRDMAWritesOrdering,
              attribute(cudaDevAttrGPUDirectRDMAWritesOrdering));
#endif
    EXPECT_EQ(cudaGetDeviceProperties(&p.properties, 2), cudaErrorInvalidDevice);
}

// Where each version of CUDA has the PCI domain, which is none that a machine uses.
TEST_F(Softcudart, EachSonameFillsInItsOwnStructure)
{
    struct Layout {
        const char *library, *function;
        int version;
        size_t size, pci_domain;
    };
    for (const Layout& layout :
         {Layout{"libcudart.so.11.0", "cudaGetDeviceProperties", 11, 728, 592},
          Layout{"libcudart.so.12", "cudaGetDeviceProperties", 12, 728, 592},
          Layout{"libcudart.so.12", "cudaGetDeviceProperties_v2", 12, 1032, 592},
          Layout{"libcudart.so.13", "cudaGetDeviceProperties", 13, 1008, 576}}) {
        SCOPED_TRACE(layout.library);
        void* library =
            dlopen((std::string(SOFTCUDART_DIRECTORY "/") + layout.library).c_str(), RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        auto* version_of = reinterpret_cast<int (*)(int*)>(
            dlvsym(library, "cudaRuntimeGetVersion", layout.library));
        auto* get =
            reinterpret_cast<int (*)(void*, int)>(dlvsym(library, layout.function, layout.library));
        ASSERT_TRUE(version_of != nullptr && get != nullptr);
        int version = 0, domain = 0, expected = 0;
        EXPECT_EQ(version_of(&version), 0);
        EXPECT_EQ(version / 1000, layout.version);
        std::string memory(layout.size + 8, 0x5a);
        ASSERT_EQ(get(memory.data(), 0), 0);
        EXPECT_EQ(memory.substr(layout.size), std::string(8, 0x5a));
        EXPECT_EQ(memory[layout.size - 1], 0);
        std::memcpy(&domain, &memory[layout.pci_domain], sizeof(domain));
        EXPECT_CUDA(cudaDeviceGetAttribute(&expected, cudaDevAttrPciDomainId, 0));
        EXPECT_EQ(domain, expected);
        dlclose(library);
    }
}

// ---- errors

TEST_F(Softcudart, TheLastErrorIsTheThreadsAndForgottenWhenRead)
{
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
    void* memory = nullptr;
    ASSERT_CUDA(cudaMalloc(&memory, 100)); // success leaves it
    std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaFree(reinterpret_cast<void*>(16)), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue); // the latest
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Softcudart, ErrorsHaveNamesAndDescriptions)
{
    EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidPitchValue), "invalid pitch");
    EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
    EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
    int named = 0;
    for (int code = 0; code < 1000; ++code) {
        const char* name = cudaGetErrorName(static_cast<cudaError_t>(code));
        if (std::strncmp(name, "cuda", 4) == 0) {
            ++named;
            EXPECT_STRNE(cudaGetErrorString(static_cast<cudaError_t>(code)), nullptr) << name;
        }
    }
    EXPECT_GT(named, 100);
}

TEST_F(Softcudart, WhatIsNotThereIsNamedOnce)
{
    cudaGraph_t graph = nullptr;
    testing::internal::CaptureStderr();
    EXPECT_EQ(cudaGraphDebugDotPrint(graph, "", 0), cudaErrorNotSupported);
    EXPECT_EQ(cudaGraphDebugDotPrint(graph, "", 0), cudaErrorNotSupported);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "softcudart: cudaGraphDebugDotPrint is not supported by the emulated GPUs\n");
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

// ---- kernels: what nvcc makes of kernel<<<1, 2>>>()

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                            void*, int*);
void __cudaUnregisterFatBinary(void**);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
}

TEST_F(Softcudart, AKernelThatDoesNotRunIsNamed)
{
    static const char kernel = 0, image = 0;
    void** binary = __cudaRegisterFatBinary(const_cast<char*>(&image));
    __cudaRegisterFunction(binary, &kernel, nullptr, "_Z5scalePff", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
    EXPECT_EQ(__cudaPushCallConfiguration(dim3(1), dim3(2, 3), 4, cudaStreamLegacy), 0u);
    ASSERT_CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT_EQ(block.y, 3u);
    EXPECT_EQ(shared, 4u);
    EXPECT_EQ(stream, cudaStreamLegacy);
    EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
              cudaErrorMissingConfiguration);
    testing::internal::CaptureStderr();
    EXPECT_EQ(cudaLaunchKernel(&kernel, grid, block, nullptr, shared, stream),
              cudaErrorNotSupported);
    EXPECT_EQ(cudaLaunchKernel(&kernel, grid, block, nullptr, shared, stream),
              cudaErrorNotSupported);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "softcudart: not launched: kernel scale(float*, float): "
              "the emulated GPUs run no device code\n");
    EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
    __cudaUnregisterFatBinary(binary);
    EXPECT_EQ(cudaLaunchKernel(&kernel, grid, block, nullptr, shared, stream),
              cudaErrorInvalidDeviceFunction);
}

// ---- together with the driver API

TEST_F(Softcudart, TheContextIsThePrimaryOne)
{
    CUcontext context = nullptr, primary = nullptr;
    ASSERT_CUDA(cudaFree(nullptr)); // the customary way to begin
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    EXPECT_EQ(context, primary);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    ASSERT_CUDA(cudaSetDevice(1));
    CUdevice device = -1;
    ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
}

TEST_F(Softcudart, AContextThatTheProgramMadeCurrentIsUsed)
{
    CUcontext own = nullptr;
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
#if CUDA_VERSION >= 13000
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 1), CUDA_SUCCESS);
#else
    ASSERT_EQ(cuCtxCreate(&own, 0, 1), CUDA_SUCCESS);
#endif
    int device = -1;
    ASSERT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 1);
    void* memory = nullptr;
    ASSERT_CUDA(cudaMalloc(&memory, 100));
    CUcontext of_memory = nullptr;
    ASSERT_EQ(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    reinterpret_cast<CUdeviceptr>(memory)),
              CUDA_SUCCESS);
    EXPECT_EQ(of_memory, own);
    ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

TEST_F(Softcudart, AfterAResetTheContextComesToLifeAgainForEveryThread)
{
    unsigned char* memory = allocate(100);
    std::atomic<int> step{0};
    std::thread other([&] {
        ASSERT_CUDA(cudaMemset(memory, 1, 100));
        step = 1;
        step.notify_all();
        step.wait(1);
        EXPECT_EQ(cudaMemset(memory, 1, 100), cudaErrorInvalidValue); // it is gone
        EXPECT_CUDA(cudaFree(allocate(100)));
    });
    step.wait(0);
    ASSERT_CUDA(cudaDeviceReset());
    CUcontext context = nullptr; // the runtime has let go of it: its next owner can end it
    unsigned flags = 0;
    int active = -1;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    step = 2;
    step.notify_all();
    other.join();
    EXPECT_CUDA(cudaMemset(allocate(100), 1, 100));
}

TEST_F(Softcudart, EntryPointsOfTheDriver)
{
    void* function = nullptr;
#if CUDART_VERSION >= 12000
    cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
    ASSERT_CUDA(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault,
                                                 &status));
#else
    ASSERT_CUDA(cudaGetDriverEntryPoint("cuMemAlloc", &function, cudaEnableDefault, &status));
#endif
    EXPECT_EQ(status, cudaDriverEntryPointSuccess);
    EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
#if CUDART_VERSION >= 12050
    ASSERT_CUDA(cudaGetDriverEntryPointByVersion("cuNonesuch", &function, 12000, cudaEnableDefault,
                                                 &status));
    EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
    EXPECT_EQ(function, nullptr);
    void* per_thread = nullptr;
    ASSERT_CUDA(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &function, 12000,
                                                 cudaEnableLegacyStream, &status));
    ASSERT_CUDA(cudaGetDriverEntryPointByVersion("cuMemcpyAsync", &per_thread, 12000,
                                                 cudaEnablePerThreadDefaultStream, &status));
    EXPECT_NE(per_thread, function);
#endif
#else
    ASSERT_CUDA(cudaGetDriverEntryPoint("cuMemAlloc", &function, cudaEnableDefault));
    EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemAlloc));
    EXPECT_EQ(cudaGetDriverEntryPoint("cuNonesuch", &function, cudaEnableDefault),
              cudaErrorSymbolNotFound);
#endif
}

// ---- processes where CUDA has not been used yet

namespace {

// As PyTorch asks: whether there are devices, forgetting the error.
int no_devices()
{
    int count = 99;
    void* memory = nullptr;
    const bool right =
        cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 &&
        cudaGetLastError() == cudaErrorNoDevice && cudaGetLastError() == cudaSuccess &&
        cudaMalloc(&memory, 100) == cudaErrorNoDevice &&
        cudaDeviceSynchronize() == cudaErrorNoDevice && cudaPeekAtLastError() == cudaErrorNoDevice;
    return right ? 0 : 1;
}

// Asking what there is takes no context, and the parent may fork after it.
int fork_before_use()
{
    int count = 0;
    unsigned flags = 0;
    int active = -1;
    void* memory = nullptr;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count != 2 ||
        cuDevicePrimaryCtxGetState(0, &flags, &active) != CUDA_SUCCESS || active != 0) {
        return 1;
    }
    const pid_t child = fork();
    if (child == 0) {
        _exit(cudaMalloc(&memory, 100) == cudaErrorInitializationError ? 0 : 1);
    }
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0 &&
                   cudaMalloc(&memory, 100) == cudaSuccess
               ? 0
               : 1;
}

// This program again, in another environment, doing one thing.
int run_as(const std::string& environment, const std::string& task)
{
    const std::string command = "env " + environment + " GDR_TEST_TASK=" + task + " /proc/" +
                                std::to_string(getpid()) + "/exe";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

TEST_F(Softcudart, WithoutDevicesAndForked)
{
    EXPECT_EQ(run_as("SOFTCUDA_DEVICES=0", "no_devices"), 0);
    EXPECT_EQ(run_as("", "fork_before_use"), 0);
}

int main(int argc, char** argv)
{
    if (const char* task = std::getenv("GDR_TEST_TASK")) {
        return std::strcmp(task, "no_devices") == 0 ? no_devices() : fork_before_use();
    }
    return run_tests(argc, argv);
}

// ---- graphs

TEST_F(Softcudart, CapturesAndGraphsAreTheDrivers)
{
    unsigned char* memory = allocate(256);
    cudaStream_t stream = nullptr;
    cudaStreamCaptureStatus status{};
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_CUDA(cudaMemset(memory, 0, 256));
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_CUDA(cudaMemsetAsync(memory, 3, 16, stream));
    EXPECT_CUDA(cudaMemcpyAsync(memory + 64, memory, 16, cudaMemcpyDeviceToDevice, stream));
    ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
    size_t count = 0;
    EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
    ASSERT_EQ(count, 2u);
    cudaGraphNode_t nodes[2], copied = nullptr;
    EXPECT_CUDA(cudaGraphGetNodes(graph, nodes, &count));
    EXPECT_CUDA(cudaGraphAddMemcpyNode1D(&copied, graph, nodes + 1, 1, memory + 128, memory + 64,
                                         16, cudaMemcpyDeviceToDevice));
    ASSERT_CUDA(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    EXPECT_EQ(contents(memory, 16), Bytes(16, 0));
    EXPECT_CUDA(cudaGraphLaunch(executable, stream));
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_EQ(contents(memory + 128, 16), Bytes(16, 3));
    EXPECT_CUDA(cudaGraphExecDestroy(executable));
    EXPECT_CUDA(cudaGraphDestroy(graph));
}

// In the global mode other calls spoil a capture, which a thread can exempt itself from.
TEST_F(Softcudart, TheCaptureModeIsTheDrivers)
{
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    void* memory = nullptr;
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    auto mode = cudaStreamCaptureModeRelaxed;
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
    EXPECT_CUDA(cudaMalloc(&memory, 64));
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}
