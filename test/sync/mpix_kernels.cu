// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Kernels with mpix_device.cuh, to be compiled.
#include <ucx-gdr/mpix_device.cuh>

extern "C" __attribute__((global)) void mpix_ready(MPIX_Prequest request, int partition)
{
    MPIX_Pready(partition, request);
}

extern "C" __attribute__((global)) void mpix_arrived(MPIX_Prequest request, int partition,
                                                     int* flag)
{
    MPIX_Parrived(request, partition, flag);
}
