// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What becomes of SIGSEGV and SIGBUS: faults on GPU memory are explained, everything else goes to
// whoever handled it before. On softcuda.
#include "plugin/cpu_fault.hpp"

#include "cuda/driver.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

int* gpu_memory();

} // namespace

// Calls of an MPI library that let the CPU touch GPU memory.
#define FAULTING_CALL(name)                                                                        \
    extern "C" [[gnu::visibility("default"), gnu::noinline]] void name()                           \
    {                                                                                              \
        *static_cast<volatile int*>(gpu_memory()) = 1;                                             \
    }
FAULTING_CALL(MPI_Bsend)
FAULTING_CALL(MPI_Wait)
FAULTING_CALL(MPI_Testsome)
FAULTING_CALL(MPI_Iprobe)
FAULTING_CALL(PMPI_Barrier)
FAULTING_CALL(MPI_Win_fence)
FAULTING_CALL(MPI_Finalize)

namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

// Of SA_SIGINFO: says what it got.
void tell(int signal, siginfo_t* info, void*)
{
    char text[64];
    const int length = std::snprintf(text, sizeof(text), "signal %d, code %d, from %s\n", signal,
                                     info->si_code, info->si_pid == getpid() ? "here" : "?");
    (void)!write(STDERR_FILENO, text, static_cast<size_t>(length));
}

void handle(int signal, int flags)
{
    struct sigaction action = {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | flags;
    sigaction(signal, &action, nullptr);
}

int* gpu_memory()
{
    CUcontext context;
    CUdeviceptr memory;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&memory, 4096) != CUDA_SUCCESS) {
        std::_Exit(99);
    }
    return reinterpret_cast<int*>(memory);
}

using gdr::mpi::Way;

// With calls of MPI that come that way.
template <Way way>
void explain_with_way(bool memtype_cache)
{
    gdr::plugin::explain_cpu_faults(
        *gdr::cuda::driver(),
        {.way_of = [](const char*) { return way; }, .memtype_cache = memtype_cache});
}
void explain_with(Way way, bool memtype_cache = false)
{
    switch (way) {
    case Way::by_layer:
        return explain_with_way<Way::by_layer>(memtype_cache);
    case Way::past_layer:
        return explain_with_way<Way::past_layer>(memtype_cache);
    case Way::without_layer:
        return explain_with_way<Way::without_layer>(memtype_cache);
    }
}

class CpuFaultDeathTest : public testing::TestWithParam<int> {
  protected:
    // In the process that dies of it.
    static void explain() { explain_with(Way::by_layer); }
    static void send() { kill(getpid(), GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Signals, CpuFaultDeathTest, testing::Values(SIGSEGV, SIGBUS));

TEST_P(CpuFaultDeathTest, KillsAtTheFirstSignalSent)
{
    EXPECT_EXIT(
        {
            std::signal(GetParam(), SIG_DFL);
            explain();
            send();
            std::_Exit(1);
        },
        KilledBySignal(GetParam()), "");
}

TEST_P(CpuFaultDeathTest, IgnoresAsBefore)
{
    EXPECT_EXIT(
        {
            std::signal(GetParam(), SIG_IGN);
            explain();
            send();
            send();
            std::_Exit(0);
        },
        ExitedWithCode(0), "");
}

TEST_P(CpuFaultDeathTest, HandlerGetsEverySignalSent)
{
    const std::string line = "signal " + std::to_string(GetParam()) + ", code 0, from here\n";
    EXPECT_EXIT(
        {
            handle(GetParam(), 0);
            explain();
            send();
            send();
            std::_Exit(0);
        },
        ExitedWithCode(0), line + line);
}

TEST_P(CpuFaultDeathTest, HandlerForOneSignalGetsOne)
{
    EXPECT_EXIT(
        {
            handle(GetParam(), SA_RESETHAND);
            explain();
            send();
            send();
            std::_Exit(0);
        },
        KilledBySignal(GetParam()), "^signal [0-9]+, code 0, from here\n$");
}

TEST_P(CpuFaultDeathTest, GpuMemoryIsExplainedAlsoAfterASignalWasSent)
{
    EXPECT_EXIT(
        {
            std::signal(SIGSEGV, SIG_IGN); // of no use against a fault
            std::signal(SIGBUS, SIG_IGN);
            explain();
            send();
            *gpu_memory() = 1;
        },
        KilledBySignal(SIGSEGV), "the CPU touched GPU memory and dies of it");
}

TEST(CpuFaultMpiDeathTest, CallWithBuffersIsBlamedFirst)
{
    EXPECT_EXIT(
        {
            std::signal(SIGSEGV, SIG_DFL); // not a sanitizer's handler, nor UCX's
            explain_with(Way::by_layer);
            MPI_Bsend();
        },
        KilledBySignal(SIGSEGV),
        "in MPI_Bsend of .*lets the CPU handle this call's buffers .or, .* a peer's operation");
}

TEST(CpuFaultMpiDeathTest, WhatIsMissingIsBlamedBeforeMpi)
{
    const struct {
        Way way;
        bool memtype_cache;
        const char* cause;
    } cases[] = {
        {Way::without_layer, false, "libgdr_mpi.so.0, is not in this process"},
        {Way::past_layer, false, "it went past libgdr_mpi.so.0"},
        {Way::past_layer, true, "UCX_MEMTYPE_CACHE is switched on"},
    };
    for (const auto& one : cases) {
        EXPECT_EXIT(
            {
                std::signal(SIGSEGV, SIG_DFL);
                explain_with(one.way, one.memtype_cache);
                MPI_Bsend();
            },
            KilledBySignal(SIGSEGV), std::string("in MPI_Bsend of .*") + one.cause);
    }
}

TEST(CpuFaultMpiDeathTest, CallWithoutBuffersProgressedAnother)
{
    const struct {
        void (*call)();
        const char* name;
    } calls[] = {{MPI_Wait, "MPI_Wait"},           {MPI_Testsome, "MPI_Testsome"},
                 {MPI_Iprobe, "MPI_Iprobe"},       {PMPI_Barrier, "MPI_Barrier"},
                 {MPI_Win_fence, "MPI_Win_fence"}, {MPI_Finalize, "MPI_Finalize"}};
    for (const auto& [call, name] : calls) {
        EXPECT_EXIT(
            {
                std::signal(SIGSEGV, SIG_DFL);
                explain_with(Way::by_layer);
                call();
            },
            KilledBySignal(SIGSEGV),
            std::string("in ") + name +
                " of .*progressing another operation on that buffer: an earlier one of this "
                "process, or a peer's");
    }
}

TEST_P(CpuFaultDeathTest, OtherFaultsAreNot)
{
    EXPECT_EXIT(
        {
            std::signal(SIGSEGV, SIG_DFL);
            explain();
            *static_cast<volatile int*>(
                mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
        },
        KilledBySignal(SIGSEGV), "^$");
}

} // namespace
