// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// cuMemAlloc, managed memory, and host memory known to the driver.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/entry.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/stream.hpp"

#include <sys/mman.h>

#include <initializer_list>
#include <mutex>

namespace softcuda {

namespace {

/// Host memory that is pinned, by cuMemHostAlloc, cuMemAllocHost and cuMemHostRegister.
class PinnedMemory {
  public:
    /// Throws CUDA_ERROR_OUT_OF_MEMORY where it would be more than SOFTCUDA_PINNED.
    void take(size_t size)
    {
        static const size_t most = size_of("SOFTCUDA_PINNED", 0, "1T");
        std::lock_guard guard(mutex_);
        require(size <= most && bytes_ <= most - size, CUDA_ERROR_OUT_OF_MEMORY);
        bytes_ += size;
    }
    void give_back(size_t size)
    {
        std::lock_guard guard(mutex_);
        bytes_ -= size;
    }

  private:
    std::mutex mutex_;
    size_t bytes_ = 0;
};

PinnedMemory& pinned_memory()
{
    static auto& memory = *new PinnedMemory; // may be freed by static destructors
    return memory;
}

/// Pins what make() allocates or registers.
template <typename Make>
void pinned(size_t size, Make make)
{
    pinned_memory().take(size);
    try {
        make();
    } catch (...) {
        pinned_memory().give_back(size);
        throw;
    }
}

/// CPU accessible memory of the driver's own.
uintptr_t allocate_host_memory(Kind kind, size_t size, unsigned flags)
{
    require(size > 0);
    require(size <= SIZE_MAX - kPage, CUDA_ERROR_OUT_OF_MEMORY);
    require_no_capture();
    void* memory = mmap(nullptr, round_up(size, kPage), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    CUcontext context = current_context();
    Allocation allocation{kind, as_address(memory), size, context->device, context};
    allocation.flags = flags;
    insert(allocation);
    return allocation.base;
}

CUresult free_memory(uintptr_t base, std::initializer_list<Kind> kinds)
{
    require_no_capture();
    Allocation allocation = remove(base, kinds);
    // As with the real driver: freeing waits for work that may still use the memory.
    wait_for_device(allocation.device);
    release(allocation);
    if (allocation.kind == Kind::host_alloc || allocation.kind == Kind::host_registered) {
        pinned_memory().give_back(allocation.size);
    }
    return CUDA_SUCCESS;
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuMemGetInfo(size_t* free, size_t* total)
{
    return api(__func__, Needs::context, [&] {
        require(free != nullptr && total != nullptr);
        Device& on = device(current_context()->device);
        *free = on.memory_free();
        *total = on.memory();
    });
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t size)
{
    return api(__func__, Needs::context, [&] {
        require(address != nullptr);
        require_no_capture();
        CUcontext context = current_context();
        *address = allocate_device_memory(Kind::device, context->device, size, context);
    });
}

CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                         unsigned element_size)
{
    return api(__func__, Needs::context, [&] {
        constexpr size_t kPitchUnit = 512;
        require(address != nullptr && pitch != nullptr && width > 0 && height > 0);
        require(element_size == 4 || element_size == 8 || element_size == 16);
        require_no_capture();
        *pitch = round_up(width, kPitchUnit);
        require(*pitch <= SIZE_MAX / height, CUDA_ERROR_OUT_OF_MEMORY);
        CUcontext context = current_context();
        *address = allocate_device_memory(Kind::device, context->device, *pitch * height, context);
    });
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(address != nullptr);
        require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
        *address = allocate_host_memory(Kind::managed, size, flags);
    });
}

SOFTCUDA_ENTRY(cuMemFree)
CUresult cuMemFree(CUdeviceptr address)
{
    return api(__func__, Needs::init, [&] {
        return address == 0 ? CUDA_SUCCESS
                            : free_memory(address, {Kind::device, Kind::pool, Kind::managed});
    });
}

// ---- host memory

CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        constexpr unsigned kKnown =
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
        require(pointer != nullptr && (flags & ~kKnown) == 0);
        pinned(size,
               [&] { *pointer = as_pointer(allocate_host_memory(Kind::host_alloc, size, flags)); });
    });
}

CUresult cuMemAllocHost(void** pointer, size_t size)
{
    return api(__func__, Needs::context, [&] {
        require(pointer != nullptr);
        pinned(size,
               [&] { *pointer = as_pointer(allocate_host_memory(Kind::host_alloc, size, 0)); });
    });
}

CUresult cuMemFreeHost(void* pointer)
{
    return api(__func__, Needs::init,
               [&] { return free_memory(as_address(pointer), {Kind::host_alloc}); });
}

CUresult cuMemHostRegister(void* pointer, size_t size, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_READ_ONLY;
        require(pointer != nullptr && size > 0 && (flags & ~kKnown) == 0);
        require((flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0, CUDA_ERROR_NOT_SUPPORTED);
        require_no_capture();
        CUcontext context = current_context();
        Allocation allocation{Kind::host_registered, as_address(pointer), size, context->device,
                              context};
        allocation.flags = flags;
        pinned(size, [&] { insert(allocation); });
    });
}

CUresult cuMemHostUnregister(void* pointer)
{
    return api(__func__, Needs::context, [&] {
        require(find(as_address(pointer)).has_value(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        return free_memory(as_address(pointer), {Kind::host_registered});
    });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* pointer, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(address != nullptr && flags == 0);
        auto allocation = find(as_address(pointer));
        require(allocation.has_value() && !allocation->on_device());
        *address = as_address(pointer);
    });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer)
{
    return api(__func__, Needs::context, [&] {
        require(flags != nullptr);
        auto allocation = find(as_address(pointer));
        require(allocation.has_value() && (allocation->kind == Kind::host_alloc ||
                                           allocation->kind == Kind::host_registered));
        // The real driver maps all host memory with unified addressing.
        *flags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    });
}
