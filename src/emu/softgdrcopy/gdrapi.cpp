// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of gdrcopy that this project uses, on softcuda.
#include "emu/softgdrcopy/softgdrcopy.h"

#include "emu/softcuda/softcuda.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#define SOFTGDRCOPY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uintptr_t kPage = 4096;

std::atomic<uint64_t> attempts, pins, unpins, writes, reads;

struct Driver {
    decltype(&cuMemGetHandleForAddressRange) export_range;
    decltype(&softcuda_dmabuf_map) map;
    decltype(&softcuda_unmap) unmap;
};

struct Gdr { // what a gdr_t points to
    Driver driver;
    uint64_t most_pins;
};

struct Pin { // what a gdr_mh_t's number is the address of
    uint64_t va;
    size_t length;
    int fd;
    void* mapped;
};

template <class Function>
bool look_up(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

void print()
{
    fprintf(stderr, "softgdrcopy pid=%d attempts=%llu pins=%llu writes=%llu reads=%llu\n", getpid(),
            static_cast<unsigned long long>(attempts), static_cast<unsigned long long>(pins),
            static_cast<unsigned long long>(writes), static_cast<unsigned long long>(reads));
}

} // namespace

// As gdrapi.h declares them.

struct gdr_mh_t {
    unsigned long h;
};

struct gdr_info_v2_t {
    uint64_t va;
    uint64_t mapped_size;
    uint32_t page_size;
    uint64_t tm_cycles;
    uint32_t cycles_per_ms;
    unsigned mapped : 1;
    unsigned wc_mapping : 1;
    int mapping_type;
};

namespace {

Pin& pin_of(gdr_mh_t handle)
{
    return *reinterpret_cast<Pin*>(handle.h);
}

} // namespace

SOFTGDRCOPY_EXPORT void gdr_runtime_get_version(int* major, int* minor)
{
    *major = 2;
    *minor = 6;
}

SOFTGDRCOPY_EXPORT Gdr* gdr_open()
{
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Gdr gdr = {};
    if (library == nullptr || !look_up(library, "softcuda_dmabuf_map", gdr.driver.map) ||
        !look_up(library, "softcuda_unmap", gdr.driver.unmap) ||
        !look_up(library, "cuMemGetHandleForAddressRange", gdr.driver.export_range))
        return nullptr;
    const char* most = getenv("SOFTGDRCOPY_MOST_PINS");
    gdr.most_pins = most != nullptr ? strtoull(most, nullptr, 10) : UINT64_MAX;
    const char* stats = getenv("SOFTGDRCOPY_STATS");
    if (stats != nullptr && strcmp(stats, "1") == 0)
        atexit(print);
    return new Gdr(gdr);
}

SOFTGDRCOPY_EXPORT int gdr_close(Gdr* gdr)
{
    delete gdr;
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_pin_buffer(Gdr* gdr, unsigned long address, size_t size, uint64_t,
                                      uint32_t, gdr_mh_t* handle)
{
    attempts.fetch_add(1);
    if (pins - unpins >= gdr->most_pins)
        return ENOMEM;
    const uintptr_t start = address & ~(kPage - 1);
    const size_t length = (address + size + kPage - 1 - start) & ~(kPage - 1);
    int fd = -1;
    const CUresult result =
        gdr->driver.export_range(&fd, start, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS)
        return EINVAL;
    handle->h = reinterpret_cast<unsigned long>(new Pin{start, length, fd, nullptr});
    pins.fetch_add(1);
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_unpin_buffer(Gdr*, gdr_mh_t handle)
{
    unpins.fetch_add(1);
    close(pin_of(handle).fd);
    delete &pin_of(handle);
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_map(Gdr* gdr, gdr_mh_t handle, void** va, size_t size)
{
    Pin& pin = pin_of(handle);
    if (pin.mapped != nullptr)
        return EAGAIN;
    if (size > pin.length)
        return EINVAL;
    pin.mapped = gdr->driver.map(pin.fd);
    if (pin.mapped == nullptr)
        return errno;
    *va = pin.mapped;
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_unmap(Gdr* gdr, gdr_mh_t handle, void* va, size_t)
{
    Pin& pin = pin_of(handle);
    if (pin.mapped == nullptr || va != pin.mapped)
        return EINVAL;
    pin.mapped = nullptr;
    return gdr->driver.unmap(va) == 0 ? 0 : EINVAL;
}

SOFTGDRCOPY_EXPORT int gdr_get_info_v2(Gdr*, gdr_mh_t handle, gdr_info_v2_t* info)
{
    constexpr int kWriteCombined = 1;
    const Pin& pin = pin_of(handle);
    *info = {};
    info->va = pin.va;
    info->mapped_size = pin.length;
    info->page_size = kPage;
    info->mapped = pin.mapped != nullptr;
    info->wc_mapping = 1;
    info->mapping_type = pin.mapped != nullptr ? kWriteCombined : 0;
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_copy_to_mapping(gdr_mh_t, void* to, const void* from, size_t size)
{
    writes.fetch_add(1);
    memcpy(to, from, size);
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_copy_from_mapping(gdr_mh_t, void* to, const void* from, size_t size)
{
    reads.fetch_add(1);
    memcpy(to, from, size);
    return 0;
}

SOFTGDRCOPY_EXPORT uint64_t softgdrcopy_attempts()
{
    return attempts;
}

SOFTGDRCOPY_EXPORT uint64_t softgdrcopy_pins()
{
    return pins;
}

SOFTGDRCOPY_EXPORT uint64_t softgdrcopy_unpins()
{
    return unpins;
}

SOFTGDRCOPY_EXPORT uint64_t softgdrcopy_writes()
{
    return writes;
}

SOFTGDRCOPY_EXPORT uint64_t softgdrcopy_reads()
{
    return reads;
}
