// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/packed_stand_in.hpp"

#include "stats/statistics.hpp"

#include <utility>

namespace gdr::mpi {

namespace {

// Of a message that is shorter the HCA, or UCX, reads host memory sooner than a GPU's.
constexpr uint64_t kFromGpu = 4096;

} // namespace

PackedStandIn::PackedStandIn(const Library& library, const cuda::Driver& driver, GpuPacking packing,
                             bool by_hca)
    : packing_(std::move(packing)), type_(library, static_cast<int>(packing_.element_bytes()))
{
    if (!by_hca || packing_.bytes() < kFromGpu) {
        on_host_ = StagingMemory(driver, packing_.device(), packing_.bytes());
        return;
    }
    const ThreadStream stream(driver, packing_.device());
    on_gpu_ = DeviceScratch(driver, stream, packing_.bytes());
}

Word PackedStandIn::address() const
{
    return reinterpret_cast<Word>(on_gpu_.data() != nullptr ? on_gpu_.data() : on_host_.data());
}

// By kernels: it is there when this returns.
void PackedStandIn::fetch(RowCopies&) const
{
    if (on_gpu_.data() != nullptr)
        packing_.pack(on_gpu_.data());
    else
        packing_.pack_to_host(on_host_.data());
    count_bytes();
}

void PackedStandIn::put_back() const
{
    if (on_gpu_.data() != nullptr)
        packing_.unpack(on_gpu_.data());
    else
        packing_.unpack_from_host(on_host_.data());
    count_bytes();
}

void PackedStandIn::count_bytes() const
{
    if (on_gpu_.data() != nullptr)
        stats::statistics().add({.mpi_gpu_bytes = packing_.bytes()});
    else
        stats::statistics().add({.mpi_staged_bytes = packing_.bytes()});
}

} // namespace gdr::mpi
