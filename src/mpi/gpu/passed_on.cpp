// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/passed_on.hpp"

#include "mpi/gpu/host_memory.hpp"

namespace gdr::mpi {

void look_at_buffers(const cuda::Driver& driver, const Call& call, const Word* words)
{
    KnownDeviceMemory memory(driver);
    for (const Side* side : {&call.send, &call.receive, &call.compare}) {
        if (side->exists() && device_memory_is_untold() &&
            may_lead_to_gpu(memory, reinterpret_cast<const void*>(words[side->buffer]))) {
            tell_of_device_memory();
        }
    }
}

std::optional<int> pass_on(const Invocation& invocation)
{
    look_at_buffers(*invocation.driver(), invocation.call(), invocation.words());
    return std::nullopt;
}

} // namespace gdr::mpi
