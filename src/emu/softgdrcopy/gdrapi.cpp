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
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOFTGDRCOPY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uintptr_t kPage = 4096;
constexpr uintptr_t kGpuPage = 64 << 10; // of the kernel module

std::atomic<uint64_t> attempts, pins, unpins, writes, reads;

struct Driver {
    decltype(&cuMemGetHandleForAddressRange) export_range;
    decltype(&softcuda_dmabuf_map) map;
    decltype(&softcuda_unmap) unmap;
    decltype(&softcuda_host_alias) alias;
    decltype(&softcuda_peer_map) peer_map;
    decltype(&cuPointerGetAttribute) attribute;
};

struct Gdr { // what a gdr_t points to
    Driver driver;
    uint64_t most_pins;
    bool kernel_module;

    uintptr_t page() const { return kernel_module ? kGpuPage : kPage; }
};

struct Pin { // what a gdr_mh_t's number is the address of
    uint64_t va;
    size_t length;
    int fd; // -1: of the kernel module
    void* mapped;
    void* held; // by the kernel module: for as long as the pin lasts the memory takes room in BAR1
};

template <class Function>
bool look_up(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

// Any byte of device memory in a page, nullptr where there is none.
const void* some_memory(const Gdr& gdr, uintptr_t page)
{
    constexpr uintptr_t kAlignment = 256; // of allocations
    for (uintptr_t address = page; address < page + kPage; address += kAlignment) {
        const auto* byte = reinterpret_cast<const void*>(address);
        if (gdr.driver.alias(byte, 1) != nullptr) {
            return byte;
        }
    }
    return nullptr;
}

// The kernel module takes whole pages of the GPU, whosever memory is in them, of the kinds that
// nvidia-peermem takes.
int pin_pages(const Gdr& gdr, Pin& pin)
{
    const void* first = nullptr;
    for (uintptr_t page = pin.va; first == nullptr && page < pin.va + pin.length; page += kPage) {
        first = some_memory(gdr, page);
    }
    int capable = 0;
    if (first == nullptr ||
        gdr.driver.attribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                             reinterpret_cast<CUdeviceptr>(first)) != CUDA_SUCCESS ||
        capable == 0) {
        return EINVAL;
    }
    pin.held = gdr.driver.peer_map(first, 1);
    return pin.held != nullptr ? 0 : errno;
}

// The pages side by side, as they are in device memory; what is nobody's is inaccessible.
void* map_pages(const Gdr& gdr, const Pin& pin)
{
    void* mapped =
        mmap(nullptr, pin.length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return nullptr;
    }
    for (size_t at = 0; at < pin.length; at += kPage) {
        const void* byte = some_memory(gdr, pin.va + at);
        if (byte == nullptr) {
            continue;
        }
        const auto alias = reinterpret_cast<uintptr_t>(gdr.driver.alias(byte, 1)) & ~(kPage - 1);
        // Of length 0: a second mapping of a shared page. Not mremap(), in the place of which UCX
        // puts one that does not know where to.
        if (syscall(SYS_mremap, alias, size_t{0}, kPage, MREMAP_MAYMOVE | MREMAP_FIXED,
                    static_cast<char*>(mapped) + at) == -1) {
            munmap(mapped, pin.length);
            return nullptr;
        }
    }
    return mapped;
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
        !look_up(library, "softcuda_host_alias", gdr.driver.alias) ||
        !look_up(library, "softcuda_peer_map", gdr.driver.peer_map) ||
        !look_up(library, "cuPointerGetAttribute", gdr.driver.attribute) ||
        !look_up(library, "cuMemGetHandleForAddressRange", gdr.driver.export_range)) {
        return nullptr;
    }
    const char* backend = getenv("SOFTGDRCOPY_BACKEND");
    gdr.kernel_module = backend != nullptr && strcmp(backend, "gdrdrv") == 0;
    const char* most = getenv("SOFTGDRCOPY_MOST_PINS");
    gdr.most_pins = most != nullptr ? strtoull(most, nullptr, 10) : UINT64_MAX;
    const char* stats = getenv("SOFTGDRCOPY_STATS");
    if (stats != nullptr && strcmp(stats, "1") == 0) {
        atexit(print);
    }
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
    if (pins - unpins >= gdr->most_pins) {
        return ENOMEM;
    }
    const uintptr_t start = address & ~(gdr->page() - 1);
    const size_t length = (address + size + gdr->page() - 1 - start) & ~(gdr->page() - 1);
    Pin pin{start, length, -1, nullptr, nullptr};
    if (gdr->kernel_module) {
        if (int error = pin_pages(*gdr, pin); error != 0) {
            return error;
        }
    } else if (gdr->driver.export_range(&pin.fd, start, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                        0) != CUDA_SUCCESS) {
        return EINVAL;
    }
    handle->h = reinterpret_cast<unsigned long>(new Pin(pin));
    pins.fetch_add(1);
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_unpin_buffer(Gdr* gdr, gdr_mh_t handle)
{
    unpins.fetch_add(1);
    Pin& pin = pin_of(handle);
    if (pin.fd >= 0) {
        close(pin.fd);
    } else {
        gdr->driver.unmap(pin.held);
    }
    delete &pin;
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_map(Gdr* gdr, gdr_mh_t handle, void** va, size_t size)
{
    Pin& pin = pin_of(handle);
    if (pin.mapped != nullptr) {
        return EAGAIN;
    }
    if (size > pin.length) {
        return EINVAL;
    }
    pin.mapped = gdr->kernel_module ? map_pages(*gdr, pin) : gdr->driver.map(pin.fd);
    if (pin.mapped == nullptr) {
        return errno;
    }
    *va = pin.mapped;
    return 0;
}

SOFTGDRCOPY_EXPORT int gdr_unmap(Gdr* gdr, gdr_mh_t handle, void* va, size_t)
{
    Pin& pin = pin_of(handle);
    if (pin.mapped == nullptr || va != pin.mapped) {
        return EINVAL;
    }
    pin.mapped = nullptr;
    const int failed = gdr->kernel_module ? munmap(va, pin.length) : gdr->driver.unmap(va);
    return failed == 0 ? 0 : EINVAL;
}

SOFTGDRCOPY_EXPORT int gdr_get_info_v2(Gdr* gdr, gdr_mh_t handle, gdr_info_v2_t* info)
{
    constexpr int kWriteCombined = 1;
    const Pin& pin = pin_of(handle);
    *info = {};
    info->va = pin.va;
    info->mapped_size = pin.length;
    info->page_size = static_cast<uint32_t>(gdr->page());
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
