// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_contexts: staged calls whatever context of CUDA the calling thread has, which it has
// afterwards, too: the GPU's primary one, none, one of the program's own, the primary one that came
// after a reset of the GPU; and of threads that end without one, and on a stack of the program's
// own, which lies below the GPU's memory as the thread's lies above it. One rank. Exits with 1
// where something is wrong, with 77 without a CUDA driver.
#include <cstdio>
#include <thread>

#include <mpi.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "gpu.hpp"

namespace {

bool failed = false;

CUcontext current()
{
    CUcontext context = nullptr;
    gpu::check(gpu::driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&context));
    return context;
}

void set_current(CUcontext context)
{
    gpu::check(gpu::driver<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(context));
}

CUcontext own_context()
{
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    CUcontext context = nullptr;
    gpu::check(gpu::driver<Create>("cuCtxCreate_v2")(&context, 0, 0));
    gpu::check(gpu::driver<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&context));
    return context;
}

// With another context current, values of the primary one.
void call(const char* what, CUcontext context)
{
    const CUcontext primary = current();
    constexpr double kSent[] = {3, 5};
    double received[] = {0, 0};
    auto* const values = static_cast<double*>(gpu::allocate(2 * sizeof(kSent)));
    gpu::copy(values, kSent, sizeof(kSent));
    set_current(context);
    for (int i = 0; i < 3; ++i) {
        MPI_Allreduce(values, values + 2, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    }
    const bool left = current() == context;
    set_current(primary);
    gpu::copy(received, values + 2, sizeof(received));
    gpu::free(values);
    const bool right = received[0] == kSent[0] && received[1] == kSent[1];
    std::printf("%s: %s, %s\n", what, right ? "right" : "WRONG",
                left ? "current afterwards" : "NOT CURRENT AFTERWARDS");
    failed = failed || !right || !left;
}

ucontext_t of_thread, of_coroutine;

void call_in_coroutine()
{
    constexpr size_t kStack = 1 << 20;
    void* const stack =
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&of_coroutine);
    of_coroutine.uc_stack.ss_sp = stack;
    of_coroutine.uc_stack.ss_size = kStack;
    of_coroutine.uc_link = &of_thread;
    makecontext(
        &of_coroutine, [] { call("a coroutine", current()); }, 0);
    swapcontext(&of_thread, &of_coroutine);
    munmap(stack, kStack);
}

// Each maps and pins memory of its own, one behind the other at the same place.
void call_in_threads_without_context()
{
    auto* const values = static_cast<double*>(gpu::allocate(2 * sizeof(double)));
    for (int i = 0; i < 20; ++i) {
        std::thread([&] {
            MPI_Allreduce(values, values + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        }).join();
    }
    gpu::free(values);
}

// Made before the layer has anything of the thread, and so destroyed after all that it had.
struct CallsLast {
    double* values;
    ~CallsLast()
    {
        for (int i = 0; i < 3; ++i) {
            const double sent = 20 + i;
            double received = 0;
            gpu::copy(values, &sent, sizeof(sent));
            MPI_Allreduce(values, values + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
            gpu::copy(&received, values + 1, sizeof(received));
            failed = failed || received != sent;
        }
    }
};

// As handlers of atexit() and static destructors do, too, in the main thread.
void call_at_the_ends_of_threads()
{
    auto* const values = static_cast<double*>(gpu::allocate(2 * sizeof(double)));
    for (int i = 0; i < 20; ++i) {
        std::thread([&] {
            gpu::use();
            thread_local CallsLast last{values};
            MPI_Allreduce(last.values, values + 1, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        }).join();
    }
    gpu::free(values);
    std::printf("at the ends of threads: %s\n", failed ? "WRONG" : "right");
}

#ifndef OPEN_MPI // whose handles of freed communicators lead to freed memory
CUcontext left;  // by the program
int errors, disturbed;

void look_at_thread(MPI_Comm*, int*, ...)
{
    const auto exchange =
        gpu::driver<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    gpu::check(exchange(&mode));
    ++errors;
    if (current() != left || mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
        ++disturbed;
    }
    gpu::check(exchange(&mode));
}

// Of a communicator of which MPI refuses to tell, before each of the two buffers is staged.
void call_in_error(CUcontext context)
{
    const CUcontext primary = current();
    auto* const values = static_cast<double*>(gpu::allocate(2 * sizeof(double)));
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(look_at_thread, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const MPI_Comm freed = comm;
    MPI_Comm_free(&comm);
    left = context;
    set_current(context);
    MPI_Sendrecv(values, 1, MPI_DOUBLE, 0, 1, values + 1, 1, MPI_DOUBLE, 0, 1, freed,
                 MPI_STATUS_IGNORE);
    set_current(primary);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    gpu::free(values);
    std::printf("an error handler: called %d times, the thread not as it was %d times\n", errors,
                disturbed);
    failed = failed || errors < 3 || disturbed > 0;
}
#endif

} // namespace

int main(int argc, char** argv)
{
    int provided = 0; // the threads call one after the other
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    gpu::use();
    const CUcontext primary = current();
    const CUcontext own = own_context();
    call("the primary context", primary);
    call("none", nullptr);
    call("one of the program's own", own);
    call("the primary context again", primary);
    call_in_threads_without_context();
    call_at_the_ends_of_threads();
    call_in_coroutine();
#ifndef OPEN_MPI
    call_in_error(own);
#endif
    gpu::check(gpu::driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxReset_v2")(0));
    gpu::use();
    call("the primary context after a reset", current());
    call("none after a reset", nullptr);
    MPI_Finalize();
    return failed ? 1 : 0;
}
