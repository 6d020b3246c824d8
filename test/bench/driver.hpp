// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The CUDA driver, and lines of figures, of the programs that contrib/bench-sync runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <ucs/type/status.h>

namespace bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(const char* what, const std::string& why)
{
    std::fprintf(stderr, "%s: %s\n", what, why.c_str());
    std::exit(1);
}

template <class Function>
Function symbol(const char* name)
{
    static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* function = driver == nullptr ? nullptr : dlsym(driver, name);
    if (function == nullptr) {
        fail(name, dlerror());
    }
    return reinterpret_cast<Function>(function);
}

#define STRING(name) #name
#define NAME(name) STRING(name)
// The look-up is made once at each place.
#define CU(function, ...)                                                                          \
    do {                                                                                           \
        static const auto function_ = symbol<decltype(&function)>(NAME(function));                 \
        if (const CUresult result = function_(__VA_ARGS__); result != CUDA_SUCCESS)                \
            fail(#function, "CUresult " + std::to_string(result));                                 \
    } while (0)

inline void check(ucs_status_t status, const char* what)
{
    if (status != UCS_OK) {
        fail(what, ucs_status_string(status));
    }
}

inline double microseconds(Clock::duration time)
{
    return std::chrono::duration<double, std::micro>(time).count();
}

// samples: in microseconds.
inline void report(const std::string& name, std::vector<double> samples)
{
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double share) {
        return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))];
    };
    std::printf("%s samples=%zu p1=%.2f p10=%.2f p50=%.2f p90=%.2f p99=%.2f max=%.2f histogram=",
                name.c_str(), samples.size(), at(0.01), at(0.1), at(0.5), at(0.9), at(0.99), at(1));
    // Four bins from one power of two to the next, from 1/8 us.
    size_t begin = 0;
    for (int bin = -12; begin < samples.size(); ++bin) {
        const double limit = std::exp2(bin / 4.0);
        const auto end = static_cast<size_t>(
            std::lower_bound(samples.begin(), samples.end(), limit) - samples.begin());
        if (end > begin) {
            std::printf("<%g:%zu,", limit, end - begin);
        }
        begin = end;
    }
    std::printf("\n");
    std::fflush(stdout);
}

// ticks: of each round, and behind them what all took (ticks.hpp). The first rounds are left out.
inline void report_rounds(const std::string& name, const std::vector<unsigned long long>& ticks,
                          double share)
{
    const size_t rounds = ticks.size() - 2;
    const double tick =
        static_cast<double>(ticks[rounds + 1]) / static_cast<double>(ticks[rounds]) / 1000;
    std::vector<double> samples;
    for (size_t round = rounds / 10; round < rounds; ++round) {
        samples.push_back(static_cast<double>(ticks[round]) * tick * share);
    }
    report(name, samples);
}

// Of the current context; nullptr where the driver runs no kernels.
inline CUfunction kernel(const char* image, const char* name)
{
    static const auto load = symbol<decltype(&cuModuleLoadData)>("cuModuleLoadData");
    CUmodule module;
    CUfunction function;
    const CUresult result = load(&module, image);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
        return nullptr;
    }
    if (result != CUDA_SUCCESS) {
        fail("cuModuleLoadData", "CUresult " + std::to_string(result));
    }
    CU(cuModuleGetFunction, &function, module, name);
    return function;
}

inline std::string content_of(const std::string& file)
{
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// In one block.
inline void launch(CUfunction kernel, unsigned threads, CUstream stream,
                   std::initializer_list<const void*> parameters)
{
    void* all[3];
    std::transform(parameters.begin(), parameters.end(), all,
                   [](const void* one) { return const_cast<void*>(one); });
    CU(cuLaunchKernel, kernel, 1, 1, 1, threads, 1, 1, 0, stream, all, nullptr);
}

} // namespace bench
