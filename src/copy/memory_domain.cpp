// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls of the memory domain. A memory handle is a Registration, or &nothing if there is nothing to
// undo.

#include "copy/memory_domain.hpp"

#include "abi/host.hpp"
#include "copy/detected_memory.hpp"
#include "copy/kept_block.hpp"
#include "cuda/allocation.hpp"
#include "cuda/device.hpp"
#include "cuda/dmabuf.hpp"
#include "cuda/inventory.hpp"
#include "cuda/mapping.hpp"
#include "host/registration_cache.hpp"
#include "log/log.hpp"
#include "mem/cache.hpp"
#include "mem/caches.hpp"
#include "mem/cuda_memory.hpp"
#include "mem/gpu_direct.hpp"
#include "mem/host_pages.hpp"
#include "mem/own_pins.hpp"
#include "mem/reach.hpp"
#include "mem/unmap_watch.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace gdr::copy {

namespace {

// From this length on CUDA copies pageable memory much slower than pinned memory: 14.5 against 8.3
// us at 64 KiB, 72 against 26 us at 1 MiB (H200). Pinning costs 34 us at 64 KiB and 21 us for each
// further MiB.
constexpr size_t kMinPinned = size_t{64} * 1024;

// The cost of a registration is a query of the attributes of one address (H200).
constexpr double kRegistrationCost = 100e-9;

// Pinning and unpinning 1 MiB of host memory costs 110 us (H200); without pinning, copies take
// longer than estimated by as much. Without this cost, protocols v2 since UCX 1.18 would send large
// messages between host buffers of one host through fragments in GPU memory. It does not matter for
// staging through buffers that UCP keeps.
constexpr double kPinningCost = 0.1e-9; // seconds per byte

struct Registration {
    void* address = nullptr; // of pinned host memory or allocated CUDA memory
    bool small = false;      // a block that may be kept
};

Registration nothing = {nullptr};

constexpr uint64_t bits(auto... types)
{
    return ((uint64_t{1} << types) | ...);
}

// Device memory that no HCA in use takes is staged like managed memory. nvidia-peermem takes only
// memory that was created for it, and one allocation at a time.
ucs_memory_type_t type_of(const cuda::Driver& driver, const cuda::Pointer& memory,
                          const void* address, bool several)
{
    const bool staged = memory.kind == cuda::MemoryKind::managed ||
                        mem::is_refused(memory.device) ||
                        (memory.context == nullptr && mem::peermem_in_use() &&
                         (several || !cuda::rdma_capable(driver, address)));
    return staged ? UCS_MEMORY_TYPE_CUDA_MANAGED : UCS_MEMORY_TYPE_CUDA;
}

// Warns once, because a slower path is no failure.
void log_limit(const mem::Reach& reach, const void* address)
{
    static std::atomic<bool> logged_parts{false}, logged_staging{false};
    if (reach.limit.empty()) {
        return;
    }
    const bool logged = (reach.staged ? logged_staging : logged_parts).exchange(true);
    const log::Level level = logged ? log::Level::diag : log::Level::warn;
    if (reach.staged) {
        log::message(level, __FILE__, __LINE__,
                     "GPU memory at %p is staged through host memory, which is slower: %s. Use "
                     "memory that this process has allocated, and fewer or smaller buffers "
                     "where the BAR1 aperture is full",
                     address, reach.limit.c_str());
    } else {
        log::message(level, __FILE__, __LINE__,
                     "GPU memory at %p is not registered as a whole, but in parts as they are "
                     "used: %s. Use fewer or smaller allocations, or a larger BAR1 aperture",
                     address, reach.limit.c_str());
    }
}

// Whether the memory cannot be registered as a whole, so that UCP was told of a part or of managed
// memory. Registrations that UCP keeps take room that the next part needs, and UCP would join the
// parts.
bool is_limited(const cuda::Pointer& memory, const abi::MemoryInfo& reported)
{
    return memory.kind == cuda::MemoryKind::device && !mem::is_refused(memory.device) &&
           (reported.type != UCS_MEMORY_TYPE_CUDA ||
            reinterpret_cast<uintptr_t>(reported.base) > memory.base ||
            reinterpret_cast<uintptr_t>(reported.base) + reported.length < memory.end());
}

// UCP's registrations at an allocation's address may be of earlier, freed memory.
void end_registrations(const cuda::Pointer& memory, const abi::MemoryInfo& reported)
{
    const auto base = reinterpret_cast<uintptr_t>(reported.base);
    const uintptr_t start = std::min(base, memory.base);
    const uintptr_t end = std::max(base + reported.length, memory.end());
    host::registration_cache().end_registrations(reinterpret_cast<void*>(start), end - start);
}

constexpr uint64_t kCudaTypes = bits(UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED);

} // namespace

abi::OptionTable md_options()
{
    return {
        .name = "gdr_cuda memory domain",
        .prefix = "GDR_CUDA_",
        .options = {{"PIN_HOST", "y",
                     "Pin (cuMemHostRegister) host memory of 64 KiB and more that is registered "
                     "for copies\n"
                     "to and from GPUs, as staging buffers are. Copies are up to three times as "
                     "fast then.\n"
                     "n: for applications that pin the same memory themselves after UCX did.",
                     offsetof(MdConfig, pin_host), abi::OptionType::boolean}},
        .size = sizeof(MdConfig)};
}

MemoryDomain::MemoryDomain(const cuda::Driver& driver, bool pin_host)
    : driver_(driver), pin_host_(pin_host), keeps_host_pages_(mem::unmaps_are_seen())
{
}

abi::MdAttributes MemoryDomain::attributes() const
{
    abi::MdAttributes attributes;
    attributes.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_ALLOC;
    attributes.memtype_copy = true;
    attributes.reg_mem_types = kCudaTypes | bits(UCS_MEMORY_TYPE_HOST);
    // Pinned pages that the heap gives out again would break the application's copies: CUDA fails a
    // copy from or to memory that is partly pinned.
    attributes.uncached_mem_types = bits(UCS_MEMORY_TYPE_HOST);
    attributes.access_mem_types = kCudaTypes | bits(UCS_MEMORY_TYPE_HOST);
    attributes.detect_mem_types = kCudaTypes;
    attributes.alloc_mem_types = kCudaTypes;
    attributes.dmabuf_mem_types = cuda::kernel_support().dmabuf ? bits(UCS_MEMORY_TYPE_CUDA) : 0;
    attributes.max_alloc = SIZE_MAX;
    attributes.max_reg = SIZE_MAX;
    attributes.reg_cost_base = kRegistrationCost;
    attributes.reg_cost_per_byte = kPinningCost;
    return attributes;
}

ucs_status_t MemoryDomain::reg(void* address, size_t length, abi::Registration, uct_mem_h* memh)
{
    if (pin_host_ && length >= kMinPinned && pin(address, length)) {
        *memh = new Registration{address};
    } else {
        *memh = &nothing;
    }
    return UCS_OK;
}

// Without a context there is nothing on a GPU to copy.
bool MemoryDomain::pin(void* address, size_t length)
try {
    if (cuda::is_untouched()) {
        return false;
    }
    cuda::Pointer memory = cuda::classify(driver_, address);
    if (memory.kind != cuda::MemoryKind::host || memory.pinned) {
        return false;
    }
    const cuda::AnyContext context(driver_);
    cuda::check(driver_.cuMemHostRegister(address, length, CU_MEMHOSTREGISTER_PORTABLE),
                "cuMemHostRegister");
    mem::own_pins::add(cuda::buffer_id(driver_, address));
    return true;
} catch (const cuda::Error& error) {
    gdr_log(debug, "%zu bytes at %p stay pageable: %s", length, address, error.what());
    return false;
}

// Fails if the context that pinned the memory was destroyed, which unpinned it, or if the driver is
// gone.
void MemoryDomain::unpin(void* address)
try {
    const cuda::AnyContext context(driver_);
    cuda::check(driver_.cuMemHostUnregister(address), "cuMemHostUnregister");
} catch (const cuda::Error& error) {
    gdr_log(debug, "host memory at %p is not unpinned: %s", address, error.what());
}

ucs_status_t MemoryDomain::dereg(uct_mem_h memh, uct_completion_t* invalidated)
{
    if (invalidated != nullptr) { // no peer can access the memory
        return UCS_ERR_UNSUPPORTED;
    }
    if (memh != &nothing) {
        std::unique_ptr<Registration> registration(static_cast<Registration*>(memh));
        unpin(registration->address);
    }
    return UCS_OK;
}

ucs_status_t MemoryDomain::pack_rkey(uct_mem_h, const void*, size_t, void*)
{
    return UCS_OK;
}

ucs_status_t MemoryDomain::alloc(size_t* length, void** address, ucs_memory_type_t type,
                                 uct_mem_h* memh)
{
    if (type != UCS_MEMORY_TYPE_CUDA && type != UCS_MEMORY_TYPE_CUDA_MANAGED) {
        return UCS_ERR_UNSUPPORTED;
    }
    auto kind = type == UCS_MEMORY_TYPE_CUDA ? cuda::MemoryKind::device : cuda::MemoryKind::managed;
    auto registration = std::make_unique<Registration>();
    const auto found = context_for_allocation();
    if (!found) {
        gdr_log(diag, "no CUDA memory of %zu bytes for UCX: the program has no CUDA context yet",
                *length);
        return UCS_ERR_NO_DEVICE;
    }
    const CUcontext context = *found;
    registration->small = kind == cuda::MemoryKind::device && *length <= kept_block::kSize;
    if (registration->small) {
        registration->address = kept_block::take(driver_, context);
    }
    CUresult result = CUDA_SUCCESS;
    if (registration->address == nullptr) {
        result = cuda::allocate(driver_, kind, context,
                                registration->small ? kept_block::kSize : *length,
                                &registration->address);
    }
    if (result != CUDA_SUCCESS) {
        gdr_log(error, "cannot allocate %zu bytes of CUDA memory for UCX: %s", *length,
                cuda::error_text(result).c_str());
        return result == CUDA_ERROR_OUT_OF_MEMORY ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    host::registration_cache().end_registrations(registration->address, *length);
    if (registration->small && !is_reported_as(type, registration->address, *length)) {
        gdr_log(diag, "no CUDA memory of %zu bytes for UCX: no HCA takes that of this GPU",
                *length);
        free(registration.release());
        return UCS_ERR_UNSUPPORTED;
    }
    *address = registration->address;
    *memh = registration.release();
    return UCS_OK;
}

// nullptr: the current context; nothing: there is none. UCP itself allocates, to learn which domain
// can, even in programs that never use a GPU.
std::optional<CUcontext> MemoryDomain::context_for_allocation()
{
    if (cuda::is_untouched()) {
        return std::nullopt;
    }
    CUcontext current = nullptr;
    cuda::check(driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != nullptr) {
        return nullptr;
    }
    const std::lock_guard guard(mutex_);
    int devices = 0;
    cuda::check(driver_.cuDeviceGetCount(&devices), "cuDeviceGetCount");
    for (CUdevice device = 0; !default_context_ && device < devices; ++device) {
        if (cuda::has_primary_context(driver_, device)) {
            default_context_.emplace(driver_, device);
        }
    }
    return default_context_ ? std::optional(default_context_->handle()) : std::nullopt;
}

// UCP 1.18 and later allocate a byte to learn which domain has device memory, and abort if the
// memory is then reported with another type.
bool MemoryDomain::is_reported_as(ucs_memory_type_t type, const void* address, size_t length)
{
    const auto info = query(address, std::max<size_t>(length, 1));
    return info && info->type == type;
}

ucs_status_t MemoryDomain::free(uct_mem_h memh)
{
    std::unique_ptr<Registration> registration(static_cast<Registration*>(memh));
    if (registration->small && kept_block::keep(driver_, registration->address)) {
        return UCS_OK;
    }
    CUresult result = cuda::release(driver_, registration->address);
    if (result == CUDA_SUCCESS) {
        return UCS_OK;
    }
    gdr_log(error, "cannot free CUDA memory at %p: %s", registration->address,
            cuda::error_text(result).c_str());
    return UCS_ERR_IO_ERROR;
}

std::optional<abi::MemoryInfo> MemoryDomain::query(const void* address, size_t length)
{
    if (const auto known = detected_memory::find(address, length)) {
        return known;
    }
    if (mem::host_pages::contains(reinterpret_cast<uintptr_t>(address))) {
        return std::nullopt;
    }
    // Zero bytes may lie anywhere, even where the next allocation will be.
    try {
        const uint64_t changes = mem::Cache::changes();
        const auto memory =
            mem::ask_for_cuda_memory(driver_, address, keeps_host_pages_ && length != 0);
        if (!memory) {
            host::registration_cache().end_registrations(address, length);
            return std::nullopt;
        }
        const abi::MemoryInfo info = describe(*memory, address, length);
        if (length != 0) { // else no HCA was asked
            const bool limited = is_limited(*memory, info);
            if (detected_memory::is_unknown(*memory, info) || limited) {
                end_registrations(*memory, info);
            }
            if (!limited) {
                detected_memory::remember(address, *memory, info, changes);
            }
        }
        return info;
    } catch (const cuda::Error& error) {
        static std::atomic<bool> logged{false};
        log::message(logged.exchange(true) ? log::Level::diag : log::Level::warn, __FILE__,
                     __LINE__,
                     "CUDA does not say what the memory at %p is, and its transfer may fail: %s",
                     address, error.what());
        return abi::MemoryInfo{
            .type = UCS_MEMORY_TYPE_CUDA_MANAGED,
            .sys_device = UCS_SYS_DEVICE_ID_UNKNOWN,
            .base = const_cast<void*>(address),
            .length = length,
        };
    }
}

// CUDA numbers the devices that the process sees once it is initialised.
ucs_sys_device_t MemoryDomain::sys_device_of(CUdevice device) const
{
    std::call_once(devices_seen_, [&] {
        for (const cuda::Device& seen : cuda::devices(driver_)) {
            sys_devices_.push_back(abi::sys_device_of_gpu(seen.pci_bus_id));
        }
    });
    return sys_devices_.at(device);
}

// UCP registers the range that it is told, so the range must hold the whole buffer.
abi::MemoryInfo MemoryDomain::describe(const cuda::Pointer& memory, const void* address,
                                       size_t length) const
{
    const uintptr_t wanted = reinterpret_cast<uintptr_t>(address) + length;
    const bool several = memory.mapped && wanted > memory.end();
    cuda::Pointer last = memory;
    while (last.end() < wanted) {
        const std::optional<cuda::Pointer> after = cuda::mapping_after(driver_, last);
        if (!after) {
            break;
        }
        last = *after;
    }
    mem::Caches::instance().learn(memory);
    ucs_memory_type_t type = type_of(driver_, memory, address, several);
    uintptr_t base = memory.base;
    uintptr_t end = last.end();
    if (type == UCS_MEMORY_TYPE_CUDA && length > 0) {
        const mem::Reach reach = mem::reach(memory, reinterpret_cast<uintptr_t>(address), length);
        log_limit(reach, address);
        if (reach.staged) {
            type = UCS_MEMORY_TYPE_CUDA_MANAGED;
        }
        base = std::max(base, reach.start);
        end = std::min(end, reach.end);
    }
    return {
        .type = type,
        .sys_device = sys_device_of(memory.device),
        .base = reinterpret_cast<void*>(base),
        .length = end - base,
    };
}

abi::Dmabuf MemoryDomain::export_dmabuf(const void* address, size_t length)
{
    cuda::DmabufExport exported = cuda::export_dmabuf(driver_, address, length);
    return {exported.fd.release(), reinterpret_cast<uintptr_t>(address) - exported.base};
}

} // namespace gdr::copy
