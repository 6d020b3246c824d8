// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Latency and bandwidth of UCP operations between two processes of one host, each with a GPU of its
// own where there are two; and the limit: the driver's copy from one GPU to the other.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "pair.hpp"
#include "words.hpp"

#include "../ucp/support/cuda.hpp"
#include "../ucp/support/report.hpp"

namespace ucptest {
namespace {

constexpr const char* kUsage =
    "usage: ucp_pair TESTS SIZES\n"
    "TESTS, separated by commas: tag, put, get (between the GPU memory of two processes), copy\n"
    "(cuMemcpyDtoDAsync between GPUs 0 and 1, or within GPU 0, and an event). SIZES: bytes.\n"
    "Prints for each TEST SIZE LATENCY BANDWIDTH: microseconds of one operation (tag: half a "
    "round\n"
    "trip; put: with a flush), and MB/s with 16 of them under way.\n";

constexpr size_t kWindow = 16;

// So many that a size takes some ten milliseconds.
size_t operations(size_t size)
{
    return size <= 65536 ? 1000 : size <= (4 << 20) ? 200 : 40;
}

double seconds_since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The seconds of one call, of `count` after a tenth of them for warming up.
template <class Call>
double seconds_of(size_t count, Call call)
{
    for (size_t i = 0; i < count / 10 + 2; ++i) {
        call();
    }
    const auto start = Clock::now();
    for (size_t i = 0; i < count; ++i) {
        call();
    }
    return seconds_since(start) / static_cast<double>(count);
}

void tell(const std::string& test, size_t size, double latency, double window)
{
    std::printf("%s %zu %.3f %.4g\n", test.c_str(), size, latency * 1e6,
                static_cast<double>(size * kWindow) / window / 1e6);
    std::fflush(stdout);
}

void measure(Ranks& ranks, Pair& pair, const std::string& test, size_t size)
{
    const size_t count = operations(size);
    double latency = 0, window = 0;
    if (test == "tag") {
        latency = seconds_of(count, [&] { pair.ping_pong(size); }) / 2;
        // A window in one direction, and a short answer.
        window = seconds_of(count / kWindow + 2, [&] {
            for (size_t i = 0; i < kWindow; ++i) {
                ranks.rank() == 0 ? pair.send(size) : pair.receive(size);
            }
            pair.complete();
            ranks.rank() == 0 ? pair.receive(0) : pair.send(0);
            pair.complete();
        });
    } else if (ranks.rank() == 0) {
        const bool put = test == "put";
        require(put || test == "get", kUsage);
        const auto all = [&](size_t number) {
            for (size_t i = 0; i < number; ++i) {
                put ? pair.put(size) : pair.get(size);
            }
            if (put) {
                pair.flush();
            }
            pair.complete();
        };
        latency = seconds_of(count, [&] { all(1); });
        window = seconds_of(count / kWindow + 2, [&] { all(kWindow); });
    }
    ranks.barrier(pair.worker(), "the end of a test");
    if (ranks.rank() == 0) {
        tell(test, size, latency, window);
    }
}

// ---- the limit

void* entry_of_driver(const char* name)
{
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    require(library != nullptr, "no CUDA driver");
    void* const entry = dlsym(library, name);
    require(entry != nullptr, format("libcuda.so.1 lacks %s", name));
    return entry;
}

// Calls a function of the driver by the name that the current version exports.
template <class Function, class... Arguments>
void cuda_call(const char* name, Arguments... arguments)
{
    const auto function = reinterpret_cast<Function>(entry_of_driver(name));
    const CUresult result = function(arguments...);
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", name, static_cast<int>(result)));
}
#define TEXT_OF(name) #name
#define CUDA_CALL(name, ...) cuda_call<decltype(&name)>(TEXT_OF(name), __VA_ARGS__)

void measure_copies(const std::vector<size_t>& sizes, size_t largest)
{
    CUDA_CALL(cuInit, 0U);
    int count = 0;
    CUDA_CALL(cuDeviceGetCount, &count);
    CUcontext contexts[2] = {};
    CUdeviceptr memory[2] = {};
    for (int i = 0; i < 2; ++i) {
        CUdevice device = 0;
        CUDA_CALL(cuDeviceGet, &device, i % count);
        CUDA_CALL(cuDevicePrimaryCtxRetain, &contexts[i], device);
        CUDA_CALL(cuCtxSetCurrent, contexts[i]);
        CUDA_CALL(cuMemAlloc, &memory[i], largest);
    }
    CUDA_CALL(cuCtxSetCurrent, contexts[0]);
    if (contexts[0] != contexts[1]) {
        CUDA_CALL(cuCtxEnablePeerAccess, contexts[1], 0U);
    }
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CUDA_CALL(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    CUDA_CALL(cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
    const auto query = reinterpret_cast<decltype(&cuEventQuery)>(entry_of_driver("cuEventQuery"));
    const auto copies = [&](size_t number, size_t size) {
        for (size_t i = 0; i < number; ++i) {
            CUDA_CALL(cuMemcpyDtoDAsync, memory[1], memory[0], size, stream);
        }
        CUDA_CALL(cuEventRecord, event, stream);
        while (query(event) == CUDA_ERROR_NOT_READY) {
        }
    };
    for (const size_t size : sizes) {
        const double latency = seconds_of(operations(size), [&] { copies(1, size); });
        tell("copy", size, latency,
             seconds_of(operations(size) / kWindow + 2, [&] { copies(kWindow, size); }));
    }
}

// ----

int run(const std::vector<std::string>& tests, const std::vector<size_t>& sizes)
{
    size_t largest = 1;
    for (const size_t size : sizes) {
        largest = std::max(largest, size);
    }
    if (tests == std::vector<std::string>{"copy"}) {
        measure_copies(sizes, largest);
        return EXIT_SUCCESS;
    }
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    report.begin("ucp_pair", 30 * deadline_s());
    require(cuda::available(ranks.rank()), "no CUDA driver");
    {
        const Memory near(MemoryKind::kCuda, largest), far(MemoryKind::kCuda, largest);
        Pair pair(ranks, near, far, Pair::MemoryType::kTold);
        for (const std::string& test : tests) {
            for (const size_t size : sizes) {
                measure(ranks, pair, test, size);
            }
        }
        pair.close();
    }
    report.end();
    return ranks.join();
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
try {
    if (argc != 3) {
        std::fputs(ucptest::kUsage, stderr);
        return EXIT_FAILURE;
    }
    return ucptest::run(ucptest::words_of(argv[1], ','), ucptest::sizes_of(argv[2]));
} catch (const std::exception& error) {
    std::fprintf(stderr, "ucp_pair: %s\n", error.what());
    return EXIT_FAILURE;
}
