// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/stand_in.hpp"

#include "cuda/context.hpp"
#include "mem/cuda_memory.hpp"
#include "mem/unmap_watch.hpp"
#include "mpi/device_copies.hpp"
#include "stats/statistics.hpp"

#include <utility>

namespace gdr::mpi {

std::optional<cuda::Pointer> find_device_memory(const cuda::Driver& driver, const void* address)
{
    static const bool keep_host_pages = mem::unmaps_are_seen();
    auto memory = mem::find_cuda_memory(driver, address, keep_host_pages);
    if (memory && memory->kind != cuda::MemoryKind::device)
        memory.reset();
    return memory;
}

namespace {

StagingMemory memory_for(const cuda::Driver& driver, CUdevice device, const Footprint& footprint)
{
    const cuda::CurrentContext current(driver, context_of(driver, device));
    return {driver, static_cast<size_t>(footprint.high() - footprint.low())};
}

} // namespace

StandIn::StandIn(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                 Footprint footprint)
    : driver_(&driver), device_(memory.device), buffer_(buffer), footprint_(std::move(footprint)),
      memory_(memory_for(driver, device_, footprint_))
{
}

void StandIn::fetch() const
{
    copy_now(*driver_, device_, footprint_, buffer_, origin(), Direction::from_device);
    stats::statistics().add({.mpi_staged_bytes = footprint_.bytes()});
}

void StandIn::put_back() const
{
    copy_now(*driver_, device_, footprint_, buffer_, origin(), Direction::to_device);
    stats::statistics().add({.mpi_staged_bytes = footprint_.bytes()});
}

} // namespace gdr::mpi
