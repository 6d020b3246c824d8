// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Describes and registers memory.
#include "mem/registrar.hpp"

#include "cuda/mapping.hpp"
#include "log/log.hpp"
#include "mem/locked_memory.hpp"
#include "mem/rdma_writes.hpp"
#include "verbs/error.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <algorithm>
#include <cerrno>
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

constexpr size_t kLargestSurplus = 64;
constexpr uintptr_t kGpuPage = 64 << 10; // granularity of BAR1 mappings
constexpr int kRelaxedAccess = verbs::kRelaxedOrdering | int{IBV_ACCESS_LOCAL_WRITE};

} // namespace

HcaRegistrar::HcaRegistrar(const verbs::Device& hca, ibv_pd* pd, Relaxed relaxed)
    : hca_(hca), pd_(pd), remote_access_(hca.remote_access()), relaxed_(relaxed),
      gpu_direct_(hca, pd)
{
}

Target HcaRegistrar::describe(uintptr_t address, size_t length, Access access)
{
    Target target;
    if (const cuda::Driver* driver = cuda::initialised_driver(); driver != nullptr) {
        cuda::Pointer first = cuda::classify(*driver, pointer(address));
        if (first.kind != cuda::MemoryKind::host) {
            return describe_device(first, address + length);
        }
    }
    target.access = access;
    target.start = address & ~(page_size() - 1);
    target.end = (address + std::max<size_t>(length, 1) + page_size() - 1) & ~(page_size() - 1);
    return target;
}

void HcaRegistrar::learn_all()
{
    const cuda::Driver* driver = cuda::initialised_driver();
    if (driver == nullptr || !gpu_direct_.possible()) {
        return;
    }
    for (const cuda::Device& gpu : cuda::devices(*driver)) {
        gdr_log(info, "%s", gpu_direct_.learn(*driver, gpu).c_str());
    }
}

bool HcaRegistrar::takes(CUdevice gpu)
{
    if (gpu_direct_.method(gpu) == Method::untried) {
        const cuda::Driver& driver = *cuda::open_driver();
        gdr_log(info, "%s", gpu_direct_.learn(driver, cuda::device(driver, gpu)).c_str());
    }
    return gpu_direct_.method(gpu) != Method::none;
}

bool HcaRegistrar::learn(const cuda::Pointer& memory)
{
    if (memory.kind != cuda::MemoryKind::device) {
        return true;
    }
    const std::string found = gpu_direct_.learn(*cuda::open_driver(), memory);
    if (!found.empty()) {
        gdr_log(info, "%s", found.c_str());
    }
    return gpu_direct_.method(memory.device) != Method::untried;
}

// Registers all adjacent mappings together, because buffers cross their boundaries and would each
// need another registration. nvidia-peermem takes one allocation at a time.
Target HcaRegistrar::describe_device(const cuda::Pointer& first, uintptr_t end)
{
    const cuda::Driver& driver = *cuda::open_driver();
    cuda::finish_memops(driver, first);
    learn(first);
    const bool all = is_dmabuf(gpu_direct_.method(first.device));
    std::vector<cuda::Pointer> memory{first};
    while (const auto before = all ? cuda::mapping_before(driver, memory.back()) : std::nullopt) {
        memory.push_back(*before);
    }
    std::reverse(memory.begin(), memory.end());
    while (all || memory.back().end() < end) {
        const auto after = cuda::mapping_after(driver, memory.back());
        if (!after) {
            break;
        }
        memory.push_back(*after);
    }
    Target target;
    target.kind = MemoryKind::device;
    target.managed = first.kind == cuda::MemoryKind::managed;
    target.in_stream_order = first.context == nullptr && !first.mapped;
    target.gpu = first.device;
    target.start = memory.front().base;
    target.end = std::max(memory.back().end(), end);
    for (const cuda::Pointer& piece : memory) {
        target.buffer_ids.add(piece.base, piece.buffer_id);
    }
    if (const size_t behind = target.end - memory.back().end(); behind > 0) {
        const uint64_t last = cuda::buffer_id(driver, pointer(target.end - 1));
        // UCX 1.16 asks for whole units of 16 bytes even if an allocation ends within one.
        if (last == 0 && behind < kLargestSurplus) {
            target.surplus = behind;
        } else {
            target.buffer_ids.add(target.end - 1, last);
        }
    }
    return target;
}

Target Registrar::narrowed(const Target& whole, uintptr_t address, size_t length)
{
    Target part = whole;
    part.start = std::max(whole.start, address & ~(kGpuPage - 1));
    const uintptr_t end = (address + length + kGpuPage - 1) & ~(kGpuPage - 1);
    if (end < whole.end - whole.surplus) {
        part.end = end;
        part.surplus = 0;
    }
    return part;
}

Registration HcaRegistrar::register_memory(Target& target, Failure* failure)
{
    return target.kind == MemoryKind::host ? register_host(target, failure)
                                           : register_device(target, failure);
}

Registration HcaRegistrar::register_host(Target& target, Failure* failure)
{
    const auto attempt = [&](int access) {
        return verbs::register_memory(pd_, access, [&](int flags) {
            return ibv_reg_mr(pd_, reinterpret_cast<void*>(target.start), target.end - target.start,
                              flags);
        });
    };
    const bool local = target.access == Access::local;
    Registration made;
    made.mr = attempt(!local          ? remote_access_
                      : relaxed_.host ? kRelaxedAccess
                                      : int{IBV_ACCESS_LOCAL_WRITE});
    if (!made.mr && errno == EFAULT) {
        made.mr = attempt(local ? 0 : IBV_ACCESS_REMOTE_READ);
        target.read_only = made.mr != nullptr;
    } else if (made.mr && !local && relaxed_.host && !verbs::has_relaxed_ordering_alone(pd_)) {
        made.relaxed = attempt(kRelaxedAccess);
    }
    if (!made.mr) {
        failure->error = errno;
        failure->cause = "ibv_reg_mr of host memory on " + hca_.name() + ": " +
                         verbs::errno_text(failure->error) + locked_memory_hint(failure->error);
    }
    return made;
}

Registration HcaRegistrar::register_device(const Target& target, Failure* failure)
{
    if (target.managed) {
        failure->unsupported = true;
        failure->managed = true;
        failure->cause = "CUDA managed memory cannot be registered with an HCA";
        return {};
    }
    try {
        RdmaWrites::instance().begin(*cuda::open_driver(), target.gpu);
    } catch (const cuda::Error& error) {
        failure->error = EIO;
        failure->cause = std::string("no context to flush an HCA's writes in: ") + error.what();
        return {};
    }
    Method method = gpu_direct_.method(target.gpu);
    const auto attempt = [&](int access) {
        return register_device_memory(*cuda::open_driver(), hca_, pd_, target.start,
                                      target.end - target.surplus - target.start, access, method);
    };
    DeviceRegistration registration = attempt(remote_access_);
    if (registration.mr) {
        Registration made;
        made.mr = std::move(registration.mr);
        if (relaxed_.device && !verbs::has_relaxed_ordering_alone(pd_)) {
            made.relaxed = attempt(kRelaxedAccess).mr;
        }
        return made;
    }
    failure->error = registration.error;
    failure->unsupported = method == Method::none;
    failure->cause =
        "registering memory of GPU " + std::to_string(target.gpu) + " with " + hca_.name() + ": " +
        (method == Method::none ? "no GPUDirect RDMA" : registration.cause) +
        (registration.error == ENOMEM ? " (the GPU's BAR1 aperture or the HCA's tables may be full)"
                                      : "");
    return {};
}

bool Registrar::same_buffer(const Region& region, uintptr_t address, size_t length)
{
    return region.buffer_ids.hold(*cuda::open_driver(), address, length);
}

} // namespace gdr::mem
