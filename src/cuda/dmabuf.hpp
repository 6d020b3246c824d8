// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Exports device memory as a dmabuf, a file descriptor from which an HCA's driver gets a GPU's
// pages. Any thread, whatever its current context.
#pragma once

#include "cuda/driver.hpp"
#include "cuda/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace gdr::cuda {

// The memory behind fd is [base, base + length), in whole pages. fd is invalid if CUDA refused.
struct DmabufExport {
    UniqueFd fd;
    uintptr_t base = 0;
    size_t length = 0;
    CUresult result =
        CUDA_SUCCESS; // why there is no fd; CUDA_ERROR_NOT_SUPPORTED: the driver is too old
};

// If C2C joins CPU and GPUs (GB200), an export is mapped by C2C unless it requests PCIe (since CUDA
// 12.8). Other machines have only one mapping.
enum class DmabufMapping : unsigned long long { usual = 0, pcie = 1 };

// Exports the pages that hold [address, address + length), and for pool memory everything before
// them in the mapping. Takes about 20 us for any length. CUDA_ERROR_INVALID_VALUE for managed and
// host memory and for ranges that leave the allocation. The fd may be closed once memory has been
// registered with it. It names the pages, not the address: after the allocation is freed, it says
// nothing about what is at the address.
DmabufExport export_dmabuf(const Driver& driver, const void* address, size_t length,
                           DmabufMapping mapping = DmabufMapping::usual);

// Tests whether a device's memory can be exported, by the attribute and by exporting a page. Empty
// if so, else one line with the cause. Allocates memory in the device's primary context.
std::string why_no_dmabuf(const Driver& driver, CUdevice device);

} // namespace gdr::cuda
