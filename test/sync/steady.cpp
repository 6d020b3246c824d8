// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// sync_steady ROUNDS triggers|transfers: what the trigger path costs besides the operations.
// Streams, graphs and kernels trigger functions over and over, or prepared transfers iterate; in
// the steady state the library allocates nothing, and its thread takes no lock. System calls are
// counted by steady_test.sh, of the thread whose number is printed, or of all.
#include "emu/softcuda/softcuda.h"
#include "sync/ucx-gdr/ugdr.h"
#include "sync/ucx-gdr/ugdr_device.cuh"

#include "../ucp/steady/allocations.hpp"
#include "../ucp/support/caller.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

namespace {

thread_local bool in_the_librarys_thread = false;
std::atomic<uint64_t> locks{0};
std::atomic<int> thread_number{0};

using Lock = int (*)(pthread_mutex_t*);
Lock the_real_lock()
{
    static std::atomic<Lock> found{nullptr}; // not a guarded variable: that would take a lock
    Lock lock = found;
    if (lock == nullptr) {
        found = lock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    }
    return lock;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex)
{
    if (in_the_librarys_thread) {
        ++locks;
    }
    return the_real_lock()(mutex);
}

namespace {

template <typename Result>
void check(Result result, const char* what)
{
    if (result != Result{}) {
        std::fprintf(stderr, "sync_steady: %s: %d\n", what, static_cast<int>(result));
        std::exit(1);
    }
}
#define CALL(function, ...) check(function(__VA_ARGS__), #function)

ucs_status_t note_the_thread(void*)
{
    in_the_librarys_thread = true;
    thread_number = gettid();
    return UCS_OK;
}

ucs_status_t never_end(void*)
{
    return UCS_INPROGRESS;
}

ucs_status_t count(void* calls)
{
    static_cast<std::atomic<uint64_t>*>(calls)->fetch_add(1);
    return UCS_OK;
}

ugdr_op_param_t on(ugdr_condition_h condition, uint64_t flags)
{
    ugdr_op_param_t param{};
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION | UGDR_OP_PARAM_FIELD_FLAGS;
    param.condition = condition;
    param.flags = flags;
    return param;
}

void use_cuda()
{
    CALL(cuInit, 0u);
    CUcontext cuda;
    CALL(cuDevicePrimaryCtxRetain, &cuda, 0);
    CALL(cuCtxSetCurrent, cuda);
}

class Triggers {
  public:
    Triggers()
    {
        use_cuda();
        CALL(cuStreamCreate, &stream_, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
        ugdr_context_params_t params{};
        params.field_mask = UGDR_CONTEXT_PARAM_FIELD_IDLE;
        params.idle = UGDR_IDLE_SPIN;
        CALL(ugdr_context_create, &params, &context_);
        CALL(ugdr_call, context_, note_the_thread, nullptr, nullptr, nullptr, nullptr);
        CALL(cuStreamBeginCapture, stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
        in_the_stream();
        in_the_stream(UGDR_CONDITION_FLAG_WAIT);
        CUgraph graph;
        CALL(cuStreamEndCapture, stream_, &graph);
        CALL(cuGraphInstantiateWithFlags, &executable_, graph, 0ull);
        CALL(cuGraphDestroy, graph);
        ugdr_condition_params_t kernel{};
        kernel.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY;
        kernel.category = UGDR_CONDITION_KERNEL;
        CALL(ugdr_condition_create, context_, &kernel, &kernel_);
        const ugdr_op_param_t param = on(kernel_, 0);
        CALL(ugdr_call, context_, count, nullptr, &calls_, &param, nullptr);
        attr_.field_mask = UGDR_CONDITION_ATTR_FIELD_DEVICE;
        CALL(ugdr_condition_query, kernel_, &attr_);
    }

    void rounds(int number)
    {
        for (int i = 0; i < number; ++i) {
            in_the_stream();
            in_the_stream(UGDR_CONDITION_FLAG_WAIT);
            CALL(cuGraphLaunch, executable_, stream_);
            ugdr_dev_trigger(attr_.device);
            CALL(cuStreamSynchronize, stream_);
            ugdr_dev_wait(attr_.device);
        }
    }
    uint64_t calls() const { return calls_; }

  private:
    void in_the_stream(uint64_t flags = 0)
    {
        ugdr_condition_params_t params{};
        params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY |
                            UGDR_CONDITION_PARAM_FIELD_STREAM | UGDR_CONDITION_PARAM_FIELD_FLAGS;
        params.category = UGDR_CONDITION_STREAM;
        params.stream = stream_;
        params.flags = flags;
        ugdr_condition_h point;
        CALL(ugdr_condition_create, context_, &params, &point);
        const ugdr_op_param_t param = on(point, flags != 0 ? 0 : UGDR_OP_FLAG_STREAM_WAIT);
        CALL(ugdr_call, context_, count, nullptr, &calls_, &param, nullptr);
        CALL(ugdr_condition_destroy, point);
    }

    CUstream stream_ = nullptr;
    CUgraphExec executable_ = nullptr;
    ugdr_context_h context_ = nullptr;
    ugdr_condition_h kernel_ = nullptr;
    ugdr_condition_attr_t attr_{};
    std::atomic<uint64_t> calls_{0};
};

// A prepared transfer between two contexts, in host memory.
class Iterations {
  public:
    Iterations()
    {
        use_cuda();
        for (End& end : ends_) {
            ugdr_context_params_t params{};
            params.field_mask = UGDR_CONTEXT_PARAM_FIELD_IDLE;
            params.idle = UGDR_IDLE_YIELD; // there may be fewer cores than threads
            CALL(ugdr_context_create, &params, &end.context);
            CALL(ugdr_peer_create, end.context, nullptr, &end.peer);
        }
        for (int i = 0; i < 2; ++i) {
            const void* blob;
            size_t length;
            CALL(ugdr_peer_export, ends_[1 - i].peer, &blob, &length);
            CALL(ugdr_peer_connect, ends_[i].peer, blob, length);
        }
        for (int i = 0; i < 2; ++i) {
            ugdr_transfer_params_t params{};
            params.field_mask = UGDR_TRANSFER_PARAM_FIELD_PEER | UGDR_TRANSFER_PARAM_FIELD_BUFFER |
                                UGDR_TRANSFER_PARAM_FIELD_PARTITIONS;
            params.peer = ends_[i].peer;
            params.buffer = ends_[i].buffer;
            params.length = sizeof(ends_[i].buffer);
            params.partitions = i == 0 ? kPartitions : 2;
            CALL(ugdr_transfer_create, ends_[i].context,
                 i == 0 ? UGDR_TRANSFER_SEND : UGDR_TRANSFER_RECV, &params, &ends_[i].transfer);
        }
        for (const End& end : ends_) {
            while (ugdr_transfer_test_match(end.transfer) == UCS_INPROGRESS) {
            }
            CALL(ugdr_call, end.context, note_the_thread, nullptr, nullptr, nullptr, nullptr);
            // The thread sleeps where nothing is under way: as between the iterations of this test.
            CALL(ugdr_call, end.context, never_end, never_end, nullptr, nullptr, nullptr);
        }
    }

    void rounds(int number)
    {
        for (int i = 0; i < number; ++i) {
            CALL(ugdr_transfer_start, ends_[0].transfer);
            CALL(ugdr_transfer_start, ends_[1].transfer);
            for (unsigned partition = 0; partition < kPartitions; ++partition) {
                CALL(ugdr_transfer_ready, ends_[0].transfer, partition);
            }
            CALL(ugdr_transfer_wait, ends_[1].transfer);
            CALL(ugdr_transfer_wait, ends_[0].transfer);
        }
    }

  private:
    static constexpr unsigned kPartitions = 4;

    struct End {
        ugdr_context_h context = nullptr;
        ugdr_peer_h peer = nullptr;
        ugdr_transfer_h transfer = nullptr;
        char buffer[4096] = {};
    };
    End ends_[2];
};

// Of libucx-gdr, since they are counted.
uint64_t allocations_of_the_library()
{
    uint64_t allocations = 0;
    bool there = false;
    for (int i = 0; ucptest::caller_name(i) != nullptr; ++i) {
        if (std::strncmp(ucptest::caller_name(i), "libucx-gdr.so", 13) == 0) {
            there = true;
            allocations += ucptest::allocations(i);
        }
    }
    if (!there) {
        std::fprintf(stderr, "sync_steady: libucx-gdr is not loaded\n");
        std::exit(1);
    }
    return allocations;
}

// These return false if something is not as it has to be.

bool triggers(int rounds)
{
    Triggers& triggers = *new Triggers; // not ended
    triggers.rounds(200);
    ucptest::remember_libraries();
    const uint64_t calls = triggers.calls();
    locks = 0;
    const uint64_t allocated = allocations_of_the_library();
    ucptest::start_counting_allocations();
    triggers.rounds(rounds);
    ucptest::stop_counting_allocations();
    const uint64_t allocations = allocations_of_the_library() - allocated;
    std::printf("thread %d: %llu triggers, %llu allocations, %llu locks\n", thread_number.load(),
                static_cast<unsigned long long>(triggers.calls() - calls),
                static_cast<unsigned long long>(allocations),
                static_cast<unsigned long long>(locks.load()));
    const uint64_t expected = 5u * static_cast<unsigned>(rounds);
    if (triggers.calls() - calls != expected) {
        std::printf("FAILED: the number of triggers\n");
        return false;
    }
    // A condition of a stream is the application's own object, made and freed in its thread. Beyond
    // these some list may still grow, in a short run as in a long one.
    constexpr uint64_t kLists = 10;
    const uint64_t conditions = 4u * static_cast<unsigned>(rounds);
    if (ucptest::allocations_can_be_counted() && allocations > conditions + kLists) {
        std::printf("FAILED: %llu allocations are those of conditions\n",
                    static_cast<unsigned long long>(conditions));
        return false;
    }
    if (locks != 0) {
        std::printf("FAILED: the library's thread took locks\n");
    }
    return locks == 0;
}

bool prepared_transfers(int rounds)
{
    Iterations& iterations = *new Iterations; // not ended
    iterations.rounds(200);
    ucptest::remember_libraries();
    const auto calls_of_cuda =
        reinterpret_cast<decltype(&softcuda_calls)>(dlsym(RTLD_DEFAULT, "softcuda_calls"));
    locks = 0;
    const uint64_t before = calls_of_cuda();
    const uint64_t allocated = allocations_of_the_library();
    ucptest::start_counting_allocations();
    iterations.rounds(rounds);
    ucptest::stop_counting_allocations();
    const uint64_t allocations = allocations_of_the_library() - allocated;
    const uint64_t calls = calls_of_cuda() - before;
    std::printf("prepared transfers: %llu allocations, %llu locks, %llu calls of CUDA\n",
                static_cast<unsigned long long>(allocations),
                static_cast<unsigned long long>(locks.load()),
                static_cast<unsigned long long>(calls));
    if (allocations + locks + calls != 0) {
        std::printf("FAILED: an iteration costs nothing of that\n");
        return false;
    }
    return true;
}

} // namespace

int main(int argc, char** argv)
{
    const int rounds = argc == 3 ? std::atoi(argv[1]) : 0;
    const std::string_view what = argc == 3 ? argv[2] : "";
    if (rounds < 1 || (what != "triggers" && what != "transfers")) {
        std::fprintf(stderr, "usage: sync_steady ROUNDS triggers|transfers\n");
        return 1;
    }
    const bool steady = what == "triggers" ? triggers(rounds) : prepared_transfers(rounds);
    std::fflush(stdout);
    std::_Exit(steady ? 0 : 1);
}
