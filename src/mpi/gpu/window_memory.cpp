// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/window_memory.hpp"

#include "abi/host.hpp"
#include "mpi/gpu/device_memory.hpp"

#include <atomic>

namespace gdr::mpi {

namespace {

bool applies_by_the_cpu_of_the_target(const Library& library)
{
    constexpr int kCuda = 0; // MPIX_GPU_SUPPORT_CUDA
    int supported = 0;
    if (library.GPU_query_support != nullptr)
        library.GPU_query_support(kCuda, &supported);
    return library.pml == nullptr && supported == 0; // not Open MPI
}

} // namespace

void look_at_window(const cuda::Driver& driver, const Arguments& arguments)
{
    const Call& call = arguments.call();
    const int buffer = call.send.buffer;
    const bool empty = arguments.words()[buffer + 1] == 0; // its size
    if (empty || !find_device_memory(driver, arguments.pointer(buffer)) ||
        !applies_by_the_cpu_of_the_target(arguments.library()))
        return;
    const bool dynamic = call.window >= 0;
    static std::atomic_flag told[2];
    if (told[dynamic].test_and_set())
        return;
    gdr_log(warn,
            "MPI_%s: a window in GPU memory: this MPI has the target's CPU apply MPI_Accumulate, "
            "MPI_Get_accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap, %s, and the program "
            "dies of it: have the window in host memory for these, or run with Open MPI, or an "
            "MPI built with CUDA",
            call.name,
            dynamic ? "and all of MPI_Put and MPI_Get in dynamic windows"
                    : "and MPI_Put and MPI_Get of types with gaps there or to the rank itself");
}

} // namespace gdr::mpi
