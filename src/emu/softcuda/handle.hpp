// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How device memory is named to another process: by the owner's memory file. Files that stand for
// device memory (dmabuf, shareable handles of cuMemCreate) hold such names.
#pragma once

#include "emu/softcuda/device.hpp"

#include <span>

namespace softcuda {

/// Bytes of a device in the memory file of a process.
struct MemoryName {
    int pid;
    int fd;
    uint64_t inode; // of the file, so that a reused process id or fd is noticed
    uint64_t offset;
    uint64_t length;
    int device; // its number in the machine
    int rdma_capable;
};

uint64_t inode_of(int fd);

MemoryName name_memory(const Extent& extent, int device_of_machine, bool rdma_capable);

/// An fd of the memory file, to be closed by the caller; -1 with errno set (ENXIO: the owner is
/// gone).
int open_memory(const MemoryName& name);

/// Maps the memory into this process; the extent holds an fd of its own. Throws
/// CUDA_ERROR_INVALID_VALUE where the owner is gone.
Extent map_memory(const MemoryName& name);
void unmap_memory(const Extent& extent);

enum class FileType : uint64_t {
    dmabuf = 0x6475'6d62'7566'0001,
    vmm = 0x6475'6d62'7566'0002,
    c2c_dmabuf = 0x6475'6d62'7566'0003, // mapped by the link between CPU and GPU, not by PCIe
};

/// A new file of `size` bytes that holds names and can be mapped for writing by nobody. Throws
/// CUDA_ERROR_OPERATING_SYSTEM.
int create_file(FileType type, size_t size, std::span<const MemoryName> names);

/// The names in such a file; empty with errno EBADF if it is not one.
std::vector<MemoryName> read_file(int fd, FileType type);

} // namespace softcuda
