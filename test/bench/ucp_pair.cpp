// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Latency and bandwidth of UCP operations between two processes of one host, each with a GPU of its
// own where there are two; and the limit: the driver's copy from one GPU to the other.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "../ucp/support/cuda.hpp"
#include "../ucp/support/endpoints.hpp"
#include "../ucp/support/failure.hpp"
#include "../ucp/support/memory.hpp"
#include "../ucp/support/ranks.hpp"
#include "../ucp/support/remote_memory.hpp"
#include "../ucp/support/report.hpp"
#include "../ucp/support/worker.hpp"

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
    for (size_t i = 0; i < count / 10 + 2; ++i)
        call();
    const auto start = Clock::now();
    for (size_t i = 0; i < count; ++i)
        call();
    return seconds_since(start) / static_cast<double>(count);
}

void tell(const std::string& test, size_t size, double latency, double window)
{
    std::printf("%s %zu %.3f %.1f\n", test.c_str(), size, latency * 1e6,
                static_cast<double>(size * kWindow) / window / 1e6);
    std::fflush(stdout);
}

class Pair {
  public:
    Pair(Ranks& ranks, size_t largest)
        : ranks_(ranks), worker_(UCP_FEATURE_TAG | UCP_FEATURE_RMA, false),
          endpoints_(ranks, worker_, Endpoints::Connect::kWorkerAddress, false),
          near_(MemoryKind::kCuda, largest), far_(MemoryKind::kCuda, largest),
          exposed_(worker_, far_)
    {
        const auto packed =
            ranks.exchange([&](int) { return exposed_.packed(); }, worker_, "remote memory");
        ep_ = endpoints_.to(1 - ranks.rank());
        remote_ =
            std::make_unique<RemoteMemory>(ep_, packed.at(static_cast<size_t>(1 - ranks.rank())));
    }
    ~Pair()
    {
        remote_.reset();
        endpoints_.close();
    }

    void measure(const std::string& test, size_t size)
    {
        const size_t count = operations(size);
        double latency = 0, window = 0;
        if (test == "tag") {
            latency = seconds_of(count, [&] { ping_pong(size); }) / 2;
            window = seconds_of(count / kWindow + 2, [&] { stream(size); });
        } else if (ranks_.rank() == 0) {
            const bool put = test == "put";
            require(put || test == "get", kUsage);
            const auto one = [&] { start(put ? this->put(size) : get(size)); };
            latency = seconds_of(count, [&] {
                one();
                complete(put);
            });
            window = seconds_of(count / kWindow + 2, [&] {
                for (size_t i = 0; i < kWindow; ++i)
                    one();
                complete(put);
            });
        }
        ranks_.barrier(worker_, "the end of a test");
        if (ranks_.rank() == 0)
            tell(test, size, latency, window);
    }

  private:
    void ping_pong(size_t size)
    {
        if (ranks_.rank() == 0)
            start(send(size));
        else
            start(receive(size));
        complete(false);
        if (ranks_.rank() == 0)
            start(receive(size));
        else
            start(send(size));
        complete(false);
    }

    // A window in one direction, and a short answer.
    void stream(size_t size)
    {
        for (size_t i = 0; i < kWindow; ++i)
            start(ranks_.rank() == 0 ? send(size) : receive(size));
        complete(false);
        start(ranks_.rank() == 0 ? receive(0) : send(0));
        complete(false);
    }

    ucp_request_param_t parameters() const
    {
        ucp_request_param_t param = {};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = UCS_MEMORY_TYPE_CUDA;
        return param;
    }
    ucs_status_ptr_t send(size_t size)
    {
        const ucp_request_param_t param = parameters();
        return ucp_tag_send_nbx(ep_, near_.address(), size, 1, &param);
    }
    ucs_status_ptr_t receive(size_t size)
    {
        const ucp_request_param_t param = parameters();
        return ucp_tag_recv_nbx(worker_.handle(), far_.address(), size, 1, ~0ULL, &param);
    }
    ucs_status_ptr_t put(size_t size)
    {
        const ucp_request_param_t param = parameters();
        return ucp_put_nbx(ep_, near_.address(), size, remote_->address(0), remote_->rkey(),
                           &param);
    }
    ucs_status_ptr_t get(size_t size)
    {
        const ucp_request_param_t param = parameters();
        return ucp_get_nbx(ep_, near_.address(), size, remote_->address(0), remote_->rkey(),
                           &param);
    }

    void start(ucs_status_ptr_t request)
    {
        if (UCS_PTR_IS_ERR(request))
            require_ok(UCS_PTR_STATUS(request), "a UCP operation");
        if (request != nullptr)
            under_way_.push_back(request);
    }
    void complete(bool flush)
    {
        if (flush) {
            const ucp_request_param_t param = {};
            start(ucp_ep_flush_nbx(ep_, &param));
        }
        for (void* request : under_way_) {
            while (ucp_request_check_status(request) == UCS_INPROGRESS)
                ucp_worker_progress(worker_.handle());
            require_ok(ucp_request_check_status(request), "a UCP operation");
            ucp_request_free(request);
        }
        under_way_.clear();
    }

    Ranks& ranks_;
    Worker worker_;
    Endpoints endpoints_;
    Memory near_, far_;
    ExposedMemory exposed_;
    ucp_ep_h ep_ = nullptr;
    std::unique_ptr<RemoteMemory> remote_;
    std::vector<void*> under_way_;
};

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
template <class... Parameters, class... Arguments>
void cuda_call(const char* name, CUresult (*)(Parameters...), Arguments... arguments)
{
    const auto function = reinterpret_cast<CUresult (*)(Parameters...)>(entry_of_driver(name));
    const CUresult result = function(arguments...);
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", name, static_cast<int>(result)));
}
#define TEXT_OF(name) #name
#define CUDA_CALL(name, ...) cuda_call(TEXT_OF(name), &name, __VA_ARGS__)

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
    if (contexts[0] != contexts[1])
        CUDA_CALL(cuCtxEnablePeerAccess, contexts[1], 0U);
    CUstream stream = nullptr;
    CUevent event = nullptr;
    CUDA_CALL(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    CUDA_CALL(cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING));
    const auto query = reinterpret_cast<decltype(&cuEventQuery)>(entry_of_driver("cuEventQuery"));
    const auto copies = [&](size_t number, size_t size) {
        for (size_t i = 0; i < number; ++i)
            CUDA_CALL(cuMemcpyDtoDAsync, memory[1], memory[0], size, stream);
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

std::vector<std::string> words_of(const char* list)
{
    std::vector<std::string> words;
    std::istringstream stream(list);
    for (std::string word; std::getline(stream, word, ',');)
        words.push_back(word);
    return words;
}

int run(const std::vector<std::string>& tests, const std::vector<size_t>& sizes)
{
    size_t largest = 1;
    for (const size_t size : sizes)
        largest = std::max(largest, size);
    if (tests == std::vector<std::string>{"copy"}) {
        measure_copies(sizes, largest);
        return EXIT_SUCCESS;
    }
    Ranks ranks(2);
    Report report(format("rank %d", ranks.rank()));
    report.begin("ucp_pair", 30 * deadline_s());
    require(cuda::available(ranks.rank()), "no CUDA driver");
    {
        Pair pair(ranks, largest);
        for (const std::string& test : tests) {
            for (const size_t size : sizes)
                pair.measure(test, size);
        }
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
    std::vector<size_t> sizes;
    for (const std::string& word : ucptest::words_of(argv[2]))
        sizes.push_back(std::stoul(word));
    return ucptest::run(ucptest::words_of(argv[1]), sizes);
} catch (const std::exception& error) {
    std::fprintf(stderr, "ucp_pair: %s\n", error.what());
    return EXIT_FAILURE;
}
