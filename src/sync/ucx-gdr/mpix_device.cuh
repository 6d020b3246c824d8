/* Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE. */
/*
 * Kernels send partitions of MPI messages, and see them arrive: the device's side of mpix.h, for
 * the compilers that ugdr_device.cuh is for. Kernels get an MPIX_Prequest by value, of
 * MPIX_Prequest_create(), and are launched after MPIX_Start().
 */
#ifndef UGDR_MPIX_DEVICE_CUH
#define UGDR_MPIX_DEVICE_CUH

#include "ugdr_device.cuh"

typedef ugdr_dev_condition_t MPIX_Prequest;

// MPIX_Wait() on the host has waited for the last round.
UGDR_DEVICE int MPIX_Pready(int partition, const MPIX_Prequest& request)
{
    ugdr_dev_trigger_waited(request, static_cast<unsigned>(partition));
    return 0;
}

UGDR_DEVICE int MPIX_Parrived(const MPIX_Prequest& request, int partition, int* flag)
{
    *flag = ugdr_dev_test(request, static_cast<unsigned>(partition)) ? 1 : 0;
    return 0;
}

#endif
