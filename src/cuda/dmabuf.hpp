// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Export of device memory as a dmabuf, the file descriptor by which an HCA's driver finds a GPU's
// pages. Any thread, whatever it has as current context.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gdr::cuda {

// Memory behind fd: [base, base + length), whole pages. fd is invalid where CUDA refused.
struct DmabufExport {
    UniqueFd fd;
    uintptr_t base = 0;
    size_t length = 0;
    CUresult result =
        CUDA_SUCCESS; // why there is none; CUDA_ERROR_NOT_SUPPORTED: the driver is too old
};

// On a machine whose CPU and GPUs are joined by C2C (GB200) an export is mapped by that link unless
// it is asked to be by PCIe, which CUDA 12.8 came with; else there is one mapping.
enum class DmabufMapping : unsigned long long { usual = 0, pcie = 1 };

// Exports the pages that hold [address, address + length), and of a pool's memory all before them,
// about 20 us whatever the length.
// Refused, with CUDA_ERROR_INVALID_VALUE, for managed and host memory and for ranges that leave the
// allocation. The fd may be closed once memory has been registered with it. It keeps naming the
// pages, not the address: after the allocation has been freed it says nothing about what is at the
// address.
DmabufExport export_dmabuf(const Driver& driver, const void* address, size_t length,
                           DmabufMapping mapping = DmabufMapping::usual);

// Whether a device's memory can be exported, by its attribute and by exporting a page of it: empty
// if so, else one line that names the cause. Memory is allocated in the device's primary context.
std::string why_no_dmabuf(const Driver& driver, CUdevice device);

} // namespace gdr::cuda
