// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The few CUDA driver calls that tests make themselves, through dlopen: the same program runs on a
// GPU, on the emulated driver, and on a machine with neither when only host memory is asked for.
#pragma once

#include <cstddef>

#include <cuda.h>

namespace ucptest::cuda {

// Whether a driver with at least one device can be opened. Opens it on the first call, retains the
// primary context of device (ordinal modulo the number of devices) and makes it current for the
// calling thread. Never called before fork.
bool available(int ordinal);

CUdeviceptr allocate(size_t size);
CUdeviceptr allocate_managed(size_t size);
CUdeviceptr allocate_from_pool(size_t size);
void release(CUdeviceptr address);
// Memory of cuMemCreate, on whole pages of the device.
CUdeviceptr map(size_t size);
void unmap(CUdeviceptr address, size_t size);
void copy_in(CUdeviceptr target, const void* source, size_t size);
void copy_out(void* target, CUdeviceptr source, size_t size);

} // namespace ucptest::cuda
