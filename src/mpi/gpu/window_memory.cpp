// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/window_memory.hpp"

#include "log/log.hpp"
#include "mpi/gpu/device_memory.hpp"
#include "mpi/interface/failure.hpp"
#include "mpi/interface/transport.hpp"

#include <atomic>
#include <cstdlib>

namespace gdr::mpi {

namespace {

bool applies_by_the_cpu_of_the_target(const Library& library)
{
    constexpr int kCuda = 0; // MPIX_GPU_SUPPORT_CUDA
    int supported = 0;
    if (library.GPU_query_support != nullptr) {
        library.GPU_query_support(kCuda, &supported);
    }
    return library.pml == nullptr && supported == 0; // not Open MPI
}

// Hydra tells how many ranks it has started, in all and on this host.
int started_ranks(const char* variable)
{
    const char* const number = std::getenv(variable);
    return number != nullptr ? std::atoi(number) : -1;
}

// Whether the CPU makes all puts and gets of other ranks. False if it is unknown whether the ranks
// are on this host, as with other launchers.
bool no_rank_reaches(const Arguments& arguments)
{
    int ranks = 1;
    arguments.library().Comm_size(arguments.handle(arguments.call().comm), &ranks);
    const int all = started_ranks("PMI_SIZE");
    return ranks > 1 && ranks <= all && all == started_ranks("MPI_LOCALNRANKS");
}

const char* what_dies_of_puts(bool dynamic, bool within_host)
{
    if (dynamic) {
        return "and all of MPI_Put and MPI_Get in dynamic windows";
    }
    if (within_host) {
        return "MPI_Put and MPI_Get of types with gaps there or to the rank itself, and, unless "
               "you run with MPIR_CVAR_NOLOCAL=1, all of MPI_Put and MPI_Get within a host";
    }
    return "and MPI_Put and MPI_Get of types with gaps there or to the rank itself";
}

// Once for each kind of window.
void warn(const Call& call, bool dynamic, bool within_host)
{
    static std::atomic_flag told[2];
    if (told[dynamic].test_and_set()) {
        return;
    }
    gdr_log(warn,
            "MPI_%s: a window in GPU memory: this MPI has the target's CPU apply MPI_Accumulate, "
            "MPI_Get_accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap, %s, and the program "
            "dies of it: have the window in host memory for these, or run with Open MPI, or an "
            "MPI built with CUDA",
            call.name, what_dies_of_puts(dynamic, within_host));
}

} // namespace

std::optional<int> make_window(const Invocation& invocation)
{
    const Library& library = invocation.library();
    const Call& call = invocation.call();
    const int buffer = call.send.buffer;
    const bool empty = invocation.words()[buffer + 1] == 0; // its size
    if (empty || !find_device_memory(*invocation.driver(), invocation.pointer(buffer)) ||
        !applies_by_the_cpu_of_the_target(library)) {
        return std::nullopt;
    }
    const bool dynamic = call.window >= 0;
    const bool within_host = copies_within_host(library);
    if (!dynamic && within_host && no_rank_reaches(invocation)) {
        const int result = invocation.make(); // the other ranks are in this call
        return result != 0 ? result
                           : refuse(library, call, invocation.words(),
                                    "a window in GPU memory: within a host this MPI copies with "
                                    "the CPU, and every MPI_Put and MPI_Get of another rank would "
                                    "end the program: run with MPIR_CVAR_NOLOCAL=1, or have the "
                                    "window in host memory");
    }
    warn(call, dynamic, within_host);
    return std::nullopt;
}

} // namespace gdr::mpi
