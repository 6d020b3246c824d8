// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a first program with the CUDA runtime does, and what two processes share: device memory,
// streams, events, attributes of pointers, IPC. Prints the library that the runtime came from.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>

namespace {

constexpr size_t kSize = 1 << 20;

void check(cudaError_t result, const char* what)
{
    if (result != cudaSuccess) {
        std::printf("%s: %s (%s)\n", what, cudaGetErrorName(result), cudaGetErrorString(result));
        std::exit(1);
    }
}
#define CHECK(call) check(call, #call)

void require(bool condition, const char* what)
{
    if (!condition) {
        std::printf("not so: %s\n", what);
        std::exit(1);
    }
}
#define REQUIRE(condition) require(condition, #condition)

// The other process: finds 1 in the memory that it is told of, and leaves 2.
int other(int from)
{
    cudaIpcMemHandle_t handle;
    REQUIRE(read(from, &handle, sizeof(handle)) == sizeof(handle));
    void* memory = nullptr;
    CHECK(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    std::vector<char> bytes(kSize);
    CHECK(cudaMemcpy(bytes.data(), memory, kSize, cudaMemcpyDeviceToHost));
    REQUIRE(bytes == std::vector<char>(kSize, 1));
    CHECK(cudaMemset(memory, 2, kSize));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(memory));
    return 0;
}

} // namespace

int main()
{
    int channel[2];
    REQUIRE(pipe(channel) == 0);
    const pid_t child = fork(); // before CUDA is used
    if (child == 0) {
        close(channel[1]); // or it would wait for what never comes
        return other(channel[0]);
    }

    Dl_info runtime{};
    REQUIRE(dladdr(reinterpret_cast<void*>(&cudaMalloc), &runtime) != 0);
    std::printf("%s\n", runtime.dli_fname);

    int count = 0;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceCount(&count));
    REQUIRE(count == 2);
    CHECK(cudaGetDeviceProperties(&properties, 0));
    REQUIRE(std::strstr(properties.name, "softcuda") != nullptr && properties.major == 9);

    void *memory = nullptr, *host = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr, end = nullptr;
    CHECK(cudaMalloc(&memory, kSize));
    CHECK(cudaMallocHost(&host, kSize));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    std::memset(host, 1, kSize);
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaMemcpyAsync(memory, host, kSize, cudaMemcpyHostToDevice, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, end));
    REQUIRE(milliseconds >= 0);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, memory));
    REQUIRE(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);

    cudaIpcMemHandle_t handle;
    CHECK(cudaIpcGetMemHandle(&handle, memory));
    REQUIRE(write(channel[1], &handle, sizeof(handle)) == sizeof(handle));
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cudaMemcpyAsync(host, memory, kSize, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(std::memcmp(host, std::vector<char>(kSize, 2).data(), kSize) == 0);

    CHECK(cudaFree(memory));
    CHECK(cudaFreeHost(host));
    CHECK(cudaStreamDestroy(stream));
    REQUIRE(cudaGetLastError() == cudaSuccess);
    std::printf("all right\n");
    return 0;
}
