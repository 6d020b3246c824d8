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
// Makes that context current for another thread; true.
bool attach_thread();

CUdeviceptr allocate(size_t size);
CUdeviceptr allocate_managed(size_t size);
CUdeviceptr allocate_from_pool(size_t size);
void release(CUdeviceptr address);
void release_to_pool(CUdeviceptr address);
void* allocate_pinned(size_t size); // host memory
void release_pinned(void* address);
bool is_pinned(const void* address); // host memory that CUDA knows
size_t free_memory();                // bytes that the device has left
// Memory of cuMemCreate, on whole pages of the device, for others by a file descriptor or, the
// second, by a fabric handle alone.
CUdeviceptr map(size_t size);
CUdeviceptr map_fabric(size_t size);
void unmap(CUdeviceptr address, size_t size);
// The same by a handle that was imported, as another process's is.
CUdeviceptr map_imported(size_t size);
void unmap_imported(CUdeviceptr address, size_t size);
// Several handles of cuMemCreate mapped side by side into one range, as allocators make that grow.
// An address that is not at the beginning of the first and has size bytes behind it, which lie in
// two handles and more if they are two bytes and more.
CUdeviceptr map_side_by_side(size_t size);
void unmap_side_by_side(CUdeviceptr address, size_t size);
void copy_in(CUdeviceptr target, const void* source, size_t size);
void copy_out(void* target, CUdeviceptr source, size_t size);

} // namespace ucptest::cuda
