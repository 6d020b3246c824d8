// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Latency of tagged messages, puts or gets over the size, between two processes, with UCP contexts
// of different configurations side by side: what passes between two of them hits all alike.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pair.hpp"
#include "processors.hpp"
#include "words.hpp"

#include "../ucp/support/cuda.hpp"
#include "../ucp/support/report.hpp"

namespace ucptest {
namespace {

constexpr const char* kUsage =
    "usage: ucp_sizes TEST MEMORY ROUNDS SIZES CONFIGURATION...\n"
    "TEST: tag (half a round trip), put (with a flush) or get. MEMORY: host or cuda. SIZES: "
    "bytes,\n"
    "separated by commas. CONFIGURATION: NAME=VALUE,... for a UCP context, or - for none.\n"
    "Each round measures each size with each configuration in turn, and prints a line for it:\n"
    "ROUND SIZE NUMBER LATENCY: of the configuration, from 0, and the median of its operations in\n"
    "microseconds.\n";

// So many that one measurement takes some milliseconds.
size_t operations(size_t size)
{
    return std::clamp<size_t>((8 << 20) / (size + 16384), 3, 300);
}

// The median of the microseconds of one call, after some for warming up.
template <class Call>
double median_us(size_t count, Call call)
{
    for (size_t i = 0; i < count / 10 + 1; ++i) {
        call();
    }
    std::vector<double> times(count);
    for (double& time : times) {
        const auto start = Clock::now();
        call();
        time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

// Its variables are in the environment while the context is made.
std::unique_ptr<Pair> make_pair(Ranks& ranks, const Memory& near, const Memory& far,
                                const std::string& configuration)
{
    std::vector<std::string> names;
    if (configuration != "-") {
        for (const std::string& word : words_of(configuration, ',')) {
            const size_t sign = word.find('=');
            require(sign != std::string::npos, kUsage);
            names.push_back(word.substr(0, sign));
            setenv(names.back().c_str(), word.substr(sign + 1).c_str(), 1);
        }
    }
    auto pair = std::make_unique<Pair>(ranks, near, far, Pair::MemoryType::kDetected);
    for (const std::string& name : names) {
        unsetenv(name.c_str());
    }
    return pair;
}

enum class Test { kTag, kPut, kGet };

double measure(Ranks& ranks, Pair& pair, Test test, size_t size)
{
    double latency = 0;
    if (test == Test::kTag) {
        latency = median_us(operations(size), [&] { pair.ping_pong(size); }) / 2;
    } else if (ranks.rank() == 0) {
        latency = median_us(operations(size), [&] {
            if (test == Test::kPut) {
                pair.put(size);
                pair.flush();
            } else {
                pair.get(size);
            }
            pair.complete();
        });
    }
    ranks.barrier(pair.worker(), "the end of a size");
    return latency;
}

int run(Test test, MemoryKind kind, int rounds, const std::vector<size_t>& sizes,
        const std::vector<std::string>& configurations)
{
    Ranks ranks(2);
    keep_to_own_processor(ranks.rank());
    Report report(format("rank %d", ranks.rank()));
    report.begin("ucp_sizes", 30 * deadline_s());
    require(kind == MemoryKind::kHost || cuda::available(ranks.rank()), "no CUDA driver");
    const size_t largest = *std::max_element(sizes.begin(), sizes.end());
    const Memory near(kind, largest), far(kind, largest);
    std::vector<std::unique_ptr<Pair>> pairs;
    for (const std::string& configuration : configurations) {
        pairs.push_back(make_pair(ranks, near, far, configuration));
    }
    for (int round = 0; round < rounds; ++round) {
        for (const size_t size : sizes) {
            for (size_t i = 0; i < pairs.size(); ++i) {
                const double latency = measure(ranks, *pairs[i], test, size);
                if (ranks.rank() == 0) {
                    std::printf("%d %zu %zu %.3f\n", round, size, i, latency);
                }
            }
        }
    }
    for (const auto& pair : pairs) {
        pair->close();
    }
    pairs.clear();
    report.end();
    return ranks.join();
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
try {
    using namespace ucptest;
    const std::string test = argc > 1 ? argv[1] : "";
    const std::vector<size_t> sizes = argc > 4 ? sizes_of(argv[4]) : std::vector<size_t>{};
    if (argc < 6 || (test != "tag" && test != "put" && test != "get") || sizes.empty()) {
        std::fputs(kUsage, stderr);
        return EXIT_FAILURE;
    }
    const Test measured = test == "tag" ? Test::kTag : test == "put" ? Test::kPut : Test::kGet;
    return run(measured, memory_kind(argv[2]), std::stoi(argv[3]), sizes,
               std::vector<std::string>(argv + 5, argv + argc));
} catch (const std::exception& error) {
    std::fprintf(stderr, "ucp_sizes: %s\n", error.what());
    return EXIT_FAILURE;
}
