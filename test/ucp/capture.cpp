// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_capture: a thread of the application captures a stream into graphs, again and again, in each
// of CUDA's modes, while another one transfers memory that UCP has not seen before. Every capture
// must come to its end with what was captured and nothing else, and every byte must be right. On
// the emulated devices or a real GPU.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>

#include <dlfcn.h>

#include "support/cuda.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/in_flight.hpp"
#include "support/messages.hpp"
#include "support/report.hpp"

namespace ucptest {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kRounds = 10;       // of transfers, at least
constexpr unsigned kCaptures = 5;      // while they go on, at least
constexpr auto kCaptureLasts = 2000us; // long enough to meet every call
constexpr size_t kSizes[] = {8, 4096, 65536, 1 << 20};

constexpr struct {
    CUstreamCaptureMode mode;
    const char* name;
} kModes[] = {{CU_STREAM_CAPTURE_MODE_GLOBAL, "global"},
              {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread_local"},
              {CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed"}};

constexpr struct {
    MemoryKind near;
    MemoryKind far;
} kMemories[] = {{MemoryKind::kCuda, MemoryKind::kCuda},
                 {MemoryKind::kHost, MemoryKind::kCuda},
                 {MemoryKind::kCuda, MemoryKind::kHost},
                 {MemoryKind::kPool, MemoryKind::kVmm},
                 {MemoryKind::kManaged, MemoryKind::kManaged}};

template <typename Function>
Function* find(const char* name)
{
    auto* function = reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name));
    require(function != nullptr, format("libcuda.so.1 lacks %s", name));
    return function;
}

void check(CUresult result, const char* call)
{
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", call, static_cast<int>(result)));
}

// A thread that captures for as long as this lives.
class Capturing {
  public:
    explicit Capturing(CUstreamCaptureMode mode) : mode_(mode)
    {
        check(find<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent")(&context_), "cuCtxGetCurrent");
        thread_ = std::thread([this] {
            try {
                run();
            } catch (const std::exception& error) {
                error_ = error.what();
                failed_ = true;
            }
        });
    }
    ~Capturing() { join(); }

    unsigned captures() const { return captures_; }
    bool failed() const { return failed_; }

    // Throws what went wrong.
    void finish()
    {
        join();
        require(!failed_, format("capture %u: %s", captures_.load() + 1, error_.c_str()));
    }

  private:
    void join()
    {
        stop_ = true;
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    void run()
    {
        check(find<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context_), "cuCtxSetCurrent");
        CUstream stream = nullptr;
        check(find<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING),
              "cuStreamCreate");
        const CUdeviceptr memory = cuda::allocate(2 * kBytes);
        while (!stop_) {
            capture(stream, memory);
            ++captures_;
        }
        cuda::release(memory);
        check(find<decltype(cuStreamDestroy)>("cuStreamDestroy_v2")(stream), "cuStreamDestroy");
    }

    void capture(CUstream stream, CUdeviceptr memory)
    {
        static const auto begin = find<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
        static const auto set = find<decltype(cuMemsetD8Async)>("cuMemsetD8Async");
        static const auto copy = find<decltype(cuMemcpyAsync)>("cuMemcpyAsync");
        static const auto end = find<decltype(cuStreamEndCapture)>("cuStreamEndCapture");
        static const auto get_nodes = find<decltype(cuGraphGetNodes)>("cuGraphGetNodes");
        static const auto destroy = find<decltype(cuGraphDestroy)>("cuGraphDestroy");
        check(begin(stream, mode_), "cuStreamBeginCapture");
        check(set(memory, 1, kBytes, stream), "cuMemsetD8Async");
        std::this_thread::sleep_for(kCaptureLasts);
        const CUresult copied = copy(memory + kBytes, memory, kBytes, stream);
        CUgraph graph = nullptr;
        check(end(stream, &graph), "cuStreamEndCapture");
        check(copied, "cuMemcpyAsync");
        size_t nodes = 0;
        check(get_nodes(graph, nullptr, &nodes), "cuGraphGetNodes");
        check(destroy(graph), "cuGraphDestroy");
        require(nodes == 2, format("2 operations were captured as %zu nodes", nodes));
    }

    static constexpr size_t kBytes = 256;

    const CUstreamCaptureMode mode_;
    CUcontext context_ = nullptr;
    std::atomic<bool> stop_{false};
    std::atomic<bool> failed_{false};
    std::atomic<unsigned> captures_{0};
    std::string error_;
    std::thread thread_; // last: it uses the others
};

class Test {
  public:
    explicit Test(Ranks& ranks)
        : ranks_(ranks), worker_(UCP_FEATURE_TAG, false),
          endpoints_(ranks, worker_, Endpoints::Connect::kWorkerAddress, false),
          peer_(1 - ranks.rank())
    {
    }

    void run(CUstreamCaptureMode mode, MemoryKind near_kind, MemoryKind far_kind, size_t size)
    {
        // Of this rank one sends, one receives; of the other rank the far one sends.
        const bool near_sends = ranks_.rank() == 0;
        Messages near(near_kind, size, 1, false), far(far_kind, size, 1, false);
        Messages& out = near_sends ? near : far;
        Messages& in = near_sends ? far : near;
        out.fill(size + static_cast<uint64_t>(ranks_.rank()));
        in.fill(0);
        Capturing capturing(mode);
        worker_.wait([&] { return capturing.captures() > 0 || capturing.failed(); },
                     "a first capture");
        ranks_.barrier(worker_, "both capture");
        for (bool more = true; more;) {
            for (unsigned round = 0; round < kRounds; ++round) {
                exchange(out, in);
            }
            const bool mine = capturing.captures() < kCaptures && !capturing.failed();
            more = ranks_.sum(mine, worker_, "captures") > 0;
        }
        captures_ += capturing.captures();
        capturing.finish();
        if (const auto wrong = in.difference(size + static_cast<uint64_t>(peer_))) {
            throw Failure(*wrong);
        }
        ranks_.barrier(worker_, "the case is over");
    }

    unsigned captures() const { return captures_; }
    void close() { endpoints_.close(); }
    Worker& worker() { return worker_; }

  private:
    void exchange(Messages& out, Messages& in)
    {
        InFlight operations(worker_);
        operations.tag_receive(in.view(0), tag_, in.size());
        operations.tag_send(endpoints_.to(peer_), out.view(0), tag_);
        operations.wait(format("exchange %llu", static_cast<unsigned long long>(tag_)));
        ++tag_;
    }

    Ranks& ranks_;
    Worker worker_;
    Endpoints endpoints_;
    int peer_;
    ucp_tag_t tag_ = 0;
    unsigned captures_ = 0;
};

int run()
{
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    if (!cuda::available(ranks.rank())) {
        return skip_without_cuda(ranks.rank());
    }
    report.begin("start", 2 * deadline_s());
    Test test(ranks);
    for (const auto& [mode, mode_name] : kModes) {
        for (const auto& [near, far] : kMemories) {
            for (size_t size : kSizes) {
                report.begin(format("%s capture, %s and %s, %zu bytes", mode_name, name(near),
                                    name(far), size),
                             2 * deadline_s());
                test.run(mode, near, far, size);
            }
        }
    }
    report.begin("end", 2 * deadline_s());
    const uint64_t captures = ranks.sum(test.captures(), test.worker(), "results");
    test.close();
    report.end();
    if (ranks.rank() != 0) {
        return EXIT_SUCCESS;
    }
    std::printf("%u cases, %llu captures, all good\n", report.cases() - 2,
                static_cast<unsigned long long>(captures));
    return ranks.join() > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

} // namespace
} // namespace ucptest

int main()
{
    return ucptest::run();
}
