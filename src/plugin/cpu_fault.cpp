// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A handler of SIGSEGV and SIGBUS that examines the fault, explains it, and lets it happen again
// under the previous handler. Signals that a process sent are passed on to that handler.
#include "plugin/cpu_fault.hpp"

#include "abi/settings.hpp"
#include "cuda/pointer.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gdr::plugin {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constexpr time_t kPatience = 2; // seconds that the examination may take

using Sigaction = int (*)(int signal, const struct sigaction* action, struct sigaction* former);

const cuda::Driver* driver_of_process;
FaultFacts facts_of_process;
Sigaction libc_sigaction;
struct sigaction former[std::size(kSignals)];

// The innermost frame whose function the user called: one of MPI's, else the one that faulted.
struct Culprit {
    const char* function = "an unknown function";
    const char* library = "?";
    bool is_mpi = false;
};

// Whether a call of MPI, named without MPI_, has no message buffer of its own: then it was
// progressing another operation.
bool has_no_buffer(std::string_view call)
{
    static constexpr std::string_view beginnings[] = {
        "Barrier", "Buffer_", "Cancel",   "Comm_",    "Finalize", "Ibarrier", "Improbe", "Iprobe",
        "Mprobe",  "Probe",   "Parrived", "Request_", "Start",    "Test",     "Wait",    "Win_"};
    return std::any_of(std::begin(beginnings), std::end(beginnings),
                       [call](std::string_view beginning) { return call.starts_with(beginning); });
}

// Why UCX takes GPU memory for host memory, whoever passes it; nullptr: it does not.
const char* mistake_of_ucx()
{
    if (facts_of_process.memtype_cache) {
        return "UCX_MEMTYPE_CACHE is switched on: UCX takes GPU memory for the host's then, since "
               "nothing tells that cache of it. Unset the variable.";
    }
    if (abi::left_out_of_a_context()) {
        return "UCX uses no gdr in a context of this process: UCX_TLS, as the environment or the "
               "program gives it, leaves gdr out. Add gdr to it, or unset it.";
    }
    return nullptr;
}

const char* explanation_of_mpi(const char* function)
{
    switch (facts_of_process.way_of(function)) {
    case mpi::Way::without_layer:
        return "What stages such calls, libgdr_mpi.so.0, is not in this process: start the program "
               "by ucx-gdr run, or preload it beside libuct_gdr.so.0.";
    case mpi::Way::past_layer:
        return "This call is not staged, since it went past libgdr_mpi.so.0, which is preloaded: "
               "the program has the function from the MPI library's handle (dlsym). Link the "
               "program with MPI, look the function up by RTLD_DEFAULT, or have ucx-gdr setup "
               "--system put the layer in front of the MPI library.";
    case mpi::Way::by_layer:
        break;
    }
    if (has_no_buffer(function + std::strlen("MPI_"))) {
        return "It was progressing another operation on that buffer: an earlier one of this "
               "process, or a peer's (MPI_Accumulate, say). This MPI library was built without "
               "CUDA and lets the CPU handle that operation's buffers. Give it host memory "
               "(cuMemcpy before or after), or use an MPI library built with CUDA; ucx-gdr's "
               "docs/reference/mpi-calls.md lists the calls that take GPU memory.";
    }
    return "This MPI library was built without CUDA and lets the CPU handle this call's buffers "
           "(or, if this one is none of them, those of an earlier or a peer's operation that the "
           "call progressed). Pass it host memory here (cuMemcpy before or after), or use an MPI "
           "library built with CUDA; ucx-gdr's docs/reference/mpi-calls.md lists the calls that "
           "take GPU memory.";
}

const char* explanation(const Culprit& culprit)
{
    const bool is_ucx = std::strstr(culprit.library, "/libuc") != nullptr;
    if (!culprit.is_mpi && !is_ucx) {
        return "Copy it with CUDA, or use managed memory.";
    }
    if (const char* mistake = mistake_of_ucx()) {
        return mistake;
    }
    if (culprit.is_mpi) {
        return explanation_of_mpi(culprit.function);
    }
    return "UCX lets the CPU handle the operand and the result of an atomic operation: give it "
           "host memory for these. Its protocols v1 do so with other buffers, too, where no "
           "HCA does: set UCX_PROTO_ENABLE=y, see ucx-gdr's docs/reference/compatibility.md.";
}

Culprit find_culprit()
{
    void* frames[64];
    const int count = backtrace(frames, std::size(frames));
    Culprit culprit;
    bool found = false;
    // The library of the previous frame, which is MPI if this frame is our layer.
    const char* inner = culprit.library;
    for (int i = 0; i < count; ++i) {
        Dl_info info;
        if (dladdr(frames[i], &info) == 0) {
            continue;
        }
        const char* const library =
            std::strstr(info.dli_fname, "/libgdr_mpi.so") != nullptr ? inner : info.dli_fname;
        inner = info.dli_fname;
        if (info.dli_sname == nullptr) {
            continue;
        }
        const std::string_view name = info.dli_sname;
        const bool is_mpi = name.starts_with("MPI_") || name.starts_with("PMPI_");
        // The first two frames are in this file; the third is the kernel's return from the handler.
        if (is_mpi || (!found && i > 2)) {
            culprit = {info.dli_sname + (name.starts_with("PMPI_") ? 1 : 0), library, is_mpi};
        }
        found |= i > 2;
        if (is_mpi) {
            break;
        }
    }
    return culprit;
}

// Formatted on the stack and written at once: nothing else is safe here.
void say(const void* address, const cuda::Pointer& memory)
{
    const Culprit culprit = find_culprit();
    char text[1536];
    const int length = std::snprintf(
        text, sizeof(text),
        "gdr: pid %d: the CPU touched GPU memory and dies of it: address %p, in a buffer of %zu "
        "bytes on GPU %d, in %s of %s. %s\n",
        getpid(), address, memory.length, memory.device, culprit.function, culprit.library,
        explanation(culprit));
    (void)!write(STDERR_FILENO, text, std::min(static_cast<size_t>(length), sizeof(text) - 1));
}

void on_fault(int signal, siginfo_t* info, void*);

struct sigaction& former_of(int signal)
{
    return former[std::find(std::begin(kSignals), std::end(kSignals), signal) - kSignals];
}

void install(int signal)
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    struct sigaction replaced = {};
    libc_sigaction(signal, &action, &replaced);
    if (replaced.sa_sigaction != on_fault) { // another thread was faster
        former_of(signal) = replaced;
    }
}

void restore(int signal)
{
    libc_sigaction(signal, &former_of(signal), nullptr);
}

// Limits the time while it exists: if the fault interrupted the driver itself, the driver may not
// answer, and then the previous handler gets the signal.
class TimeLimit {
  public:
    explicit TimeLimit(int signal)
    {
        sigevent event = {};
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = signal;
        itimerspec time = {};
        time.it_value.tv_sec = kPatience;
        is_set_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
        if (is_set_) {
            timer_settime(timer_, 0, &time, nullptr);
        }
    }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;
    ~TimeLimit()
    {
        if (is_set_) {
            timer_delete(timer_);
        }
    }

  private:
    timer_t timer_;
    bool is_set_;
};

// Sends the signal again to the previous handler, as if this one did not exist: that handler runs,
// or the process dies, before this returns. Then this handler is installed again.
void pass_on(int signal, siginfo_t* info)
{
    restore(signal);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info) != 0) {
        raise(signal);
    }
    install(signal);
}

// Returning executes the faulting instruction again.
void on_fault(int signal, siginfo_t* info, void*)
{
    if (info->si_code <= 0) { // sent by a process, not a fault
        pass_on(signal, info);
        return;
    }
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    restore(signal);
    if (busy.test_and_set()) {
        return;
    }
    const TimeLimit limit(signal);
    try {
        const cuda::Pointer memory = cuda::classify(*driver_of_process, info->si_addr);
        if (memory.kind == cuda::MemoryKind::device) {
            say(info->si_addr, memory);
        }
    } catch (...) {
        // The driver may not know anything any more; then there is nothing to explain.
    }
}

} // namespace

void explain_cpu_faults(const cuda::Driver& driver, const FaultFacts& facts)
{
    static std::atomic_flag done = ATOMIC_FLAG_INIT;
    if (done.test_and_set()) {
        return;
    }
    // libc's function, since UCX's own sigaction keeps others from handling faults.
    void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    libc_sigaction = libc ? reinterpret_cast<Sigaction>(dlsym(libc, "sigaction")) : nullptr;
    if (libc_sigaction == nullptr) {
        return;
    }
    driver_of_process = &driver;
    facts_of_process = facts;
    void* frame;
    backtrace(&frame, 1); // loads its libraries now, while that is possible
    for (int signal : kSignals) {
        install(signal);
    }
}

} // namespace gdr::plugin
