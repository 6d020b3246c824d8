// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Describing and registering memory.
#include "mem/registrar.hpp"

#include "cuda/pointer.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/resource.h>
#include <unistd.h>

namespace gdr::mem {
namespace {

uintptr_t page_size()
{
    static const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    return size;
}

const void* pointer(uintptr_t address)
{
    return reinterpret_cast<const void*>(address);
}

std::string locked_memory_limit()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return "";
    }
    return " (locked memory is limited to " + std::to_string(limit.rlim_cur >> 10) +
           " KiB: raise it with ulimit -l)";
}

constexpr size_t kLargestSurplus = 64;

} // namespace

Registrar::Registrar(const verbs::Device& hca, ibv_pd* pd)
    : hca_(hca), pd_(pd),
      access_(kAccess |
              (hca.attributes().atomic_cap != IBV_ATOMIC_NONE ? IBV_ACCESS_REMOTE_ATOMIC : 0)),
      gpu_direct_(hca, pd)
{
}

Target Registrar::describe(uintptr_t address, size_t length) const
{
    Target target;
    if (const cuda::Driver* driver = cuda::loaded_driver(); driver != nullptr) {
        cuda::Pointer first = cuda::classify(*driver, pointer(address));
        if (first.kind != cuda::MemoryKind::host) {
            cuda::finish_memops(*driver, first);
            target.kind = MemoryKind::device;
            target.managed = first.kind == cuda::MemoryKind::managed;
            target.gpu = first.device;
            target.start = first.base;
            target.end = std::max(first.base + first.length, address + length);
            target.first_buffer_id = first.buffer_id;
            target.last_buffer_id = target.end == first.base + first.length
                                        ? first.buffer_id
                                        : cuda::buffer_id(*driver, pointer(target.end - 1));
            // UCX 1.16 asks for whole units of 16 bytes where an allocation ends within one.
            const size_t behind = target.end - (first.base + first.length);
            if (target.last_buffer_id == 0 && behind < kLargestSurplus) {
                target.surplus = behind;
                target.last_buffer_id = first.buffer_id;
            }
            return target;
        }
    }
    target.start = address & ~(page_size() - 1);
    target.end = (address + std::max<size_t>(length, 1) + page_size() - 1) & ~(page_size() - 1);
    return target;
}

verbs::MemoryRegion Registrar::register_memory(Target& target, Failure* failure)
{
    return target.kind == MemoryKind::host ? register_host(target, failure)
                                           : register_device(target, failure);
}

verbs::MemoryRegion Registrar::register_host(Target& target, Failure* failure)
{
    const auto attempt = [&](int access) {
        return verbs::MemoryRegion(ibv_reg_mr(pd_, reinterpret_cast<void*>(target.start),
                                              target.end - target.start, access));
    };
    verbs::MemoryRegion mr = attempt(access_);
    if (!mr && errno == EFAULT) {
        mr = attempt(IBV_ACCESS_REMOTE_READ);
        target.read_only = mr != nullptr;
    }
    if (!mr) {
        failure->error = errno;
        failure->cause = "ibv_reg_mr of host memory on " + hca_.name() + ": " +
                         verbs::errno_text(failure->error) +
                         (failure->error == ENOMEM ? locked_memory_limit() : "");
    }
    return mr;
}

verbs::MemoryRegion Registrar::register_device(const Target& target, Failure* failure)
{
    if (target.managed) {
        failure->unsupported = true;
        failure->cause = "CUDA managed memory cannot be registered with an HCA";
        return nullptr;
    }
    Method method = gpu_direct_.method(target.gpu);
    DeviceRegistration registration =
        register_device_memory(*cuda::loaded_driver(), hca_, pd_, target.start,
                               target.end - target.surplus - target.start, access_, method);
    if (registration.mr) {
        if (method == Method::untried) {
            gpu_direct_.decide(target.gpu, registration.method);
        }
        return std::move(registration.mr);
    }
    failure->error = registration.error;
    failure->unsupported = method == Method::none;
    failure->cause =
        "registering memory of GPU " + std::to_string(target.gpu) + " with " + hca_.name() + ": " +
        (method == Method::none ? "no GPUDirect RDMA" : registration.cause) +
        (registration.error == ENOMEM ? " (the GPU's BAR1 aperture or the HCA's tables are full)"
                                      : "");
    return nullptr;
}

bool Registrar::same_buffer(const Region& region)
{
    const cuda::Driver& driver = *cuda::loaded_driver();
    if (cuda::buffer_id(driver, pointer(region.start)) != region.first_buffer_id) {
        return false;
    }
    return region.first_buffer_id == region.last_buffer_id ||
           cuda::buffer_id(driver, pointer(region.end - 1)) == region.last_buffer_id;
}

} // namespace gdr::mem
