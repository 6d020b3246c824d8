// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Buffers that the provider allocates, and registration by attributes. libibverbs has them from its
// release 64 on. An earlier header does not declare them, and a later one does so with these types:
// hence names of our own for the compiler.
#include "emu/softhca/ops.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <unistd.h>

namespace {

struct Buffer {
    char* start;
    std::size_t size;
    ibv_pd* pd;
};

enum Field : std::uint64_t {
    kIova = 1 << 0,
    kAddress = 1 << 1,
    kFd = 1 << 2,
    kFdOffset = 1 << 3,
    kDmaHandle = 1 << 4,
    kBuffer = 1 << 5,
};

// struct ibv_mr_init_attr.
struct Attributes {
    std::size_t length;
    int access;
    std::uint64_t given; // Fields
    std::uint64_t iova;
    void* address;
    int fd;
    std::uint64_t fd_offset;
    void* dma_handle;
    const Buffer* buffer;
};

ibv_mr* fail(int error)
{
    errno = error;
    return nullptr;
}

bool holds(const Buffer& buffer, const void* address, std::size_t length)
{
    const auto offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(buffer.start);
    return offset <= buffer.size && length <= buffer.size - offset;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

void* softhca_alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer) __asm__("ibv_alloc_buf");
void softhca_free_buf(Buffer* buffer) __asm__("ibv_free_buf");
ibv_mr* softhca_reg_mr_ex(ibv_pd* pd, const Attributes* attributes) __asm__("ibv_reg_mr_ex");
ibv_mr* softhca_reg_buf_mr(ibv_pd* pd, const Buffer* buffer, void* address, std::size_t length,
                           int access) __asm__("ibv_reg_buf_mr");

void* softhca_alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer)
{
    void* start = nullptr;
    const int error = posix_memalign(&start, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), size);
    *buffer = error == 0 ? new (std::nothrow) Buffer{static_cast<char*>(start), size, pd} : nullptr;
    if (!*buffer) {
        std::free(start);
        return fail(ENOMEM);
    }
    return start;
}

void softhca_free_buf(Buffer* buffer)
{
    std::free(buffer->start);
    delete buffer;
}

ibv_mr* softhca_reg_mr_ex(ibv_pd* pd, const Attributes* attributes)
{
    const Attributes& wanted = *attributes;
    const auto access = static_cast<unsigned>(wanted.access);
    const bool has_iova = wanted.given & kIova;
    switch (wanted.given & ~std::uint64_t{kIova}) {
    case kFd | kFdOffset:
        return has_iova ? softhca::register_dmabuf(pd, wanted.fd_offset, wanted.length, wanted.iova,
                                                   wanted.fd, access)
                        : fail(EINVAL);
    case kAddress | kBuffer:
        if (pd != wanted.buffer->pd || !holds(*wanted.buffer, wanted.address, wanted.length)) {
            return fail(EINVAL);
        }
        [[fallthrough]];
    case kAddress:
        return softhca::register_memory(
            pd, wanted.address, wanted.length,
            has_iova ? wanted.iova : reinterpret_cast<std::uint64_t>(wanted.address), access);
    default:
        return fail(wanted.given & kDmaHandle ? EOPNOTSUPP : EINVAL);
    }
}

ibv_mr* softhca_reg_buf_mr(ibv_pd* pd, const Buffer* buffer, void* address, std::size_t length,
                           int access)
{
    const Attributes attributes = {.length = length,
                                   .access = access,
                                   .given = kAddress | kBuffer,
                                   .iova = 0,
                                   .address = address,
                                   .fd = -1,
                                   .fd_offset = 0,
                                   .dma_handle = nullptr,
                                   .buffer = buffer};
    return softhca_reg_mr_ex(pd, &attributes);
}

} // extern "C"
#pragma GCC visibility pop
