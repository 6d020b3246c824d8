// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_contexts: staged calls whatever context of CUDA the calling thread has, which it has
// afterwards, too: the GPU's primary one, none, one of the program's own, the primary one that came
// after a reset of the GPU. One rank. Exits with 1 where something is wrong, with 77 without a CUDA
// driver.
#include <cstdio>

#include <mpi.h>

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
    for (int i = 0; i < 3; ++i)
        MPI_Allreduce(values, values + 2, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    const bool left = current() == context;
    set_current(primary);
    gpu::copy(received, values + 2, sizeof(received));
    gpu::free(values);
    const bool right = received[0] == kSent[0] && received[1] == kSent[1];
    std::printf("%s: %s, %s\n", what, right ? "right" : "WRONG",
                left ? "current afterwards" : "NOT CURRENT AFTERWARDS");
    failed = failed || !right || !left;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    gpu::use();
    const CUcontext primary = current();
    const CUcontext own = own_context();
    call("the primary context", primary);
    call("none", nullptr);
    call("one of the program's own", own);
    call("the primary context again", primary);
    gpu::check(gpu::driver<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxReset_v2")(0));
    gpu::use();
    call("the primary context after a reset", current());
    call("none after a reset", nullptr);
    MPI_Finalize();
    return failed ? 1 : 0;
}
