// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Names of device memory, and the files that hold them.
#include "emu/softcuda/handle.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace softcuda {

namespace {

struct Header {
    FileType type;
    uint64_t names;
};

bool write_all(int fd, const void* data, size_t size, off_t offset)
{
    return pwrite(fd, data, size, offset) == static_cast<ssize_t>(size);
}

} // namespace

uint64_t inode_of(int fd)
{
    struct stat status {};
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

MemoryName name_memory(const Extent& extent, int device_of_machine, bool rdma_capable)
{
    MemoryName name{};
    name.pid = getpid();
    name.fd = extent.fd;
    name.inode = inode_of(extent.fd);
    name.offset = extent.offset;
    name.length = extent.length;
    name.device = device_of_machine;
    name.rdma_capable = rdma_capable;
    return name;
}

int open_memory(const MemoryName& name)
{
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", name.pid, name.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && inode_of(fd) == name.inode) {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
        errno = ENXIO;
    } else if (errno == ENOENT) {
        errno = ENXIO;
    }
    return -1;
}

Extent map_memory(const MemoryName& name)
{
    Extent extent;
    extent.fd = open_memory(name);
    require(extent.fd >= 0);
    extent.offset = name.offset;
    extent.length = name.length;
    void* alias = mmap(nullptr, name.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                       extent.fd, static_cast<off_t>(name.offset));
    if (alias == MAP_FAILED) {
        close(extent.fd);
        throw Error{CUDA_ERROR_OUT_OF_MEMORY};
    }
    extent.alias = static_cast<char*>(alias);
    return extent;
}

void unmap_memory(const Extent& extent)
{
    munmap(extent.alias, extent.length);
    close(extent.fd);
}

int create_file(FileType type, size_t size, std::span<const MemoryName> names)
{
    int fd = memfd_create(type == FileType::vmm ? "softcuda-handle" : "softcuda-dmabuf",
                          MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    Header header{type, names.size()};
    bool written =
        write_all(fd, &header, sizeof(header), 0) &&
        write_all(fd, names.data(), names.size_bytes(), sizeof(header)) &&
        ftruncate(fd, static_cast<off_t>(size)) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (!written) {
        close(fd);
        throw Error{CUDA_ERROR_OPERATING_SYSTEM};
    }
    return fd;
}

std::vector<MemoryName> read_file(int fd, FileType type)
{
    Header header{};
    struct stat status {};
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_WRITE) == 0 || fstat(fd, &status) != 0 ||
        pread(fd, &header, sizeof(header), 0) != sizeof(header) || header.type != type ||
        header.names > static_cast<uint64_t>(status.st_size) / sizeof(MemoryName)) {
        errno = EBADF;
        return {};
    }
    std::vector<MemoryName> names(header.names);
    auto size = static_cast<ssize_t>(names.size() * sizeof(MemoryName));
    if (pread(fd, names.data(), static_cast<size_t>(size), sizeof(header)) != size) {
        errno = EBADF;
        return {};
    }
    return names;
}

} // namespace softcuda
