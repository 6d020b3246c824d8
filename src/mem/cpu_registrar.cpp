// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Maps windows of device memory. Every failure counts as unsupported: the cache then gives up
// nothing else for the window and does not try parts.
#include "mem/cpu_registrar.hpp"

#include "cuda/context.hpp"
#include "cuda/relaxed_capture.hpp"

#include <algorithm>

namespace gdr::mem {

Target CpuRegistrar::describe(uintptr_t address, size_t length, Access)
{
    const cuda::Driver& driver = *cuda::open_driver();
    const cuda::Pointer memory = cuda::classify(driver, reinterpret_cast<const void*>(address));
    cuda::finish_memops(driver, memory);
    Target target;
    if (memory.kind == cuda::MemoryKind::host) {
        return target;
    }
    target.kind = MemoryKind::device;
    target.managed = memory.kind == cuda::MemoryKind::managed;
    target.gpu = memory.device;
    target.start = std::max(memory.base, address & ~(kWindow - 1));
    target.end = std::min(memory.end(), (address + length + kWindow - 1) & ~(kWindow - 1));
    target.surplus = address + length > target.end ? address + length - target.end : 0;
    target.buffer_ids.add(target.start, memory.buffer_id);
    return target;
}

Registration CpuRegistrar::register_memory(Target& target, Failure* failure)
{
    failure->unsupported = true;
    if (target.kind == MemoryKind::host || target.managed) {
        failure->cause = "it is no device memory";
        return {};
    }
    if (target.surplus > 0) {
        failure->cause = "it is not of one allocation";
        return {};
    }
    if (library_.mappings() >= kMostWindows) {
        failure->cause = "as much as may be is mapped already";
        return {};
    }
    const cuda::Driver& driver = *cuda::open_driver();
    const auto* start = reinterpret_cast<const void*>(target.start);
    const cuda::RelaxedCapture relaxed(driver);
    const cuda::CurrentContext current(driver, cuda::classify(driver, start));
    return {{}, library_.map(target.start, target.end - target.start, &failure->cause)};
}

} // namespace gdr::mem
