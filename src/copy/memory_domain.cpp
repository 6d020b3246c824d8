// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The domain's calls. A memory handle is a Registration, or kNothing where there is nothing to
// undo.

#include "copy/memory_domain.hpp"

#include "abi/completion.hpp"
#include "abi/host.hpp"
#include "cuda/allocation.hpp"
#include "cuda/device.hpp"
#include "cuda/dmabuf.hpp"
#include "cuda/pointer.hpp"
#include "mem/gpu_direct.hpp"
#include "mem/host_pages.hpp"
#include "plugin/unmap_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace gdr::copy {

namespace {

// From here on CUDA copies pageable memory markedly slower than pinned memory: 14.5 against 8.3 us
// at 64 KiB, 72 against 26 us at 1 MiB (H200). Pinning costs 34 us at 64 KiB and 21 us for each MiB
// more.
constexpr size_t kMinPinned = 64 * 1024;

// A query of the attributes of one address (H200), which is what a registration costs. Pinning is
// not in it: UCP registers host memory here only where it prepares staging buffers or the user maps
// memory.
constexpr double kRegistrationCost = 100e-9;

struct Registration {
    void* address; // of pinned host memory, or of allocated CUDA memory
};

Registration nothing = {nullptr};

constexpr uint64_t bits(auto... types)
{
    return ((uint64_t{1} << types) | ...);
}

// Device memory that an HCA in use does not take is staged as managed memory is.
ucs_memory_type_t type_of(const cuda::Driver& driver, const cuda::Pointer& memory,
                          const void* address)
{
    const bool staged = memory.kind == cuda::MemoryKind::managed ||
                        (memory.context == nullptr && mem::peermem_in_use() &&
                         !cuda::rdma_capable(driver, address));
    return staged ? UCS_MEMORY_TYPE_CUDA_MANAGED : UCS_MEMORY_TYPE_CUDA;
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
                     "to and from GPUs, as staging buffers are. Copies run at up to three times "
                     "the speed\n"
                     "then. n: for applications that pin the same memory themselves after UCX did.",
                     offsetof(MdConfig, pin_host), abi::OptionType::boolean}},
        .size = sizeof(MdConfig)};
}

MemoryDomain::MemoryDomain(const cuda::Driver& driver, bool pin_host)
    : driver_(driver), pin_host_(pin_host), keeps_host_pages_(plugin::unmaps_are_seen())
{
    std::vector<cuda::Device> devices = cuda::devices(driver);
    for (const cuda::Device& device : devices)
        sys_devices_.push_back(abi::sys_device_of_pci(device.pci_bus_id));
    dmabuf_ = std::ranges::all_of(devices, &cuda::Device::dmabuf);
}

abi::MdAttributes MemoryDomain::attributes() const
{
    abi::MdAttributes attributes;
    attributes.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_ALLOC;
    attributes.memtype_copy = true;
    attributes.reg_mem_types = kCudaTypes | bits(UCS_MEMORY_TYPE_HOST);
    attributes.access_mem_types = kCudaTypes | bits(UCS_MEMORY_TYPE_HOST);
    attributes.detect_mem_types = kCudaTypes;
    attributes.alloc_mem_types = kCudaTypes;
    attributes.dmabuf_mem_types = dmabuf_ ? bits(UCS_MEMORY_TYPE_CUDA) : 0;
    attributes.max_alloc = SIZE_MAX;
    attributes.max_reg = SIZE_MAX;
    attributes.reg_cost_base = kRegistrationCost;
    return attributes;
}

ucs_status_t MemoryDomain::reg(void* address, size_t length, bool, uct_mem_h* memh)
{
    if (pin_host_ && length >= kMinPinned && pin(address, length))
        *memh = new Registration{address};
    else
        *memh = &nothing;
    return UCS_OK;
}

// Pinning needs a context but, being portable, no particular one. None is created for it: where
// there is none, nothing on a GPU could be copied yet.
CUresult MemoryDomain::in_any_context(auto call)
{
    CUcontext current = nullptr;
    cuda::check(driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != nullptr)
        return call();
    for (CUdevice device = 0; device < static_cast<CUdevice>(sys_devices_.size()); ++device) {
        unsigned flags;
        int active = 0;
        cuda::check(driver_.cuDevicePrimaryCtxGetState(device, &flags, &active),
                    "cuDevicePrimaryCtxGetState");
        if (active != 0) {
            cuda::PrimaryContext primary(driver_, device);
            cuda::CurrentContext in_primary(driver_, primary.handle());
            return call();
        }
    }
    return CUDA_ERROR_INVALID_CONTEXT;
}

bool MemoryDomain::pin(void* address, size_t length)
{
    cuda::Pointer memory = cuda::classify(driver_, address);
    if (memory.kind != cuda::MemoryKind::host || memory.pinned)
        return false;
    CUresult result = in_any_context(
        [&] { return driver_.cuMemHostRegister(address, length, CU_MEMHOSTREGISTER_PORTABLE); });
    if (result != CUDA_SUCCESS)
        gdr_log(debug, "%zu bytes at %p stay pageable: cuMemHostRegister: %s", length, address,
                cuda::error_text(result).c_str());
    return result == CUDA_SUCCESS;
}

void MemoryDomain::unpin(void* address)
{
    CUresult result = in_any_context([&] { return driver_.cuMemHostUnregister(address); });
    if (result != CUDA_SUCCESS) // the context that pinned it was destroyed, which unpinned it
        gdr_log(debug, "cuMemHostUnregister(%p): %s", address, cuda::error_text(result).c_str());
}

ucs_status_t MemoryDomain::dereg(uct_mem_h memh, uct_completion_t* invalidated)
{
    if (memh != &nothing) {
        std::unique_ptr<Registration> registration(static_cast<Registration*>(memh));
        unpin(registration->address);
    }
    abi::complete(invalidated, UCS_OK);
    return UCS_OK;
}

ucs_status_t MemoryDomain::pack_rkey(uct_mem_h, void*)
{
    return UCS_OK;
}

ucs_status_t MemoryDomain::alloc(size_t* length, void** address, ucs_memory_type_t type,
                                 uct_mem_h* memh)
{
    if (type != UCS_MEMORY_TYPE_CUDA && type != UCS_MEMORY_TYPE_CUDA_MANAGED)
        return UCS_ERR_UNSUPPORTED;
    auto kind = type == UCS_MEMORY_TYPE_CUDA ? cuda::MemoryKind::device : cuda::MemoryKind::managed;
    auto registration = std::make_unique<Registration>();
    CUresult result =
        cuda::allocate(driver_, kind, context_for_allocation(), *length, &registration->address);
    if (result != CUDA_SUCCESS) {
        gdr_log(error, "cannot allocate %zu bytes of CUDA memory: %s", *length,
                cuda::error_text(result).c_str());
        return result == CUDA_ERROR_OUT_OF_MEMORY ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    *address = registration->address;
    *memh = registration.release();
    return UCS_OK;
}

// nullptr: the current one.
CUcontext MemoryDomain::context_for_allocation()
{
    CUcontext current = nullptr;
    cuda::check(driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current != nullptr)
        return nullptr;
    std::lock_guard guard(mutex_);
    if (!default_context_)
        default_context_.emplace(driver_, 0);
    return default_context_->handle();
}

ucs_status_t MemoryDomain::free(uct_mem_h memh)
{
    std::unique_ptr<Registration> registration(static_cast<Registration*>(memh));
    CUresult result = cuda::release(driver_, registration->address);
    if (result == CUDA_SUCCESS)
        return UCS_OK;
    gdr_log(error, "cannot free CUDA memory at %p: %s", registration->address,
            cuda::error_text(result).c_str());
    return UCS_ERR_IO_ERROR;
}

std::optional<abi::MemoryInfo> MemoryDomain::query(const void* address, size_t length)
{
    auto where = reinterpret_cast<uintptr_t>(address);
    // No bytes may be anywhere, also where the next allocation will be.
    bool kept = keeps_host_pages_ && length != 0;
    if (kept && mem::host_pages::contains(where))
        return std::nullopt;
    cuda::Pointer memory = cuda::classify(driver_, address);
    if (memory.kind == cuda::MemoryKind::host) {
        if (kept && !memory.pinned)
            mem::host_pages::add(where);
        return std::nullopt;
    }
    cuda::finish_memops(driver_, memory);
    return abi::MemoryInfo{
        .type = type_of(driver_, memory, address),
        .sys_device = sys_devices_.at(memory.device),
        .base = reinterpret_cast<void*>(memory.base),
        .length = memory.length,
    };
}

abi::Dmabuf MemoryDomain::export_dmabuf(const void* address, size_t length)
{
    cuda::DmabufExport exported = cuda::export_dmabuf(driver_, address, length);
    return {exported.fd.release(), reinterpret_cast<uintptr_t>(address) - exported.base};
}

} // namespace gdr::copy
