// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/packed_shadow.hpp"

#include "log/log.hpp"
#include "stats/statistics.hpp"

#include <algorithm>
#include <utility>

namespace gdr::mpi {

namespace {

// A shorter message arrives sooner from host memory than from GPU memory.
constexpr uint64_t kFromGpu = 64 << 10;

} // namespace

PackedShadow::PackedShadow(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                           Footprint&& footprint, bool by_hca)
    : driver_(&driver), device_(memory.device), buffer_(buffer), footprint_(std::move(footprint))
{
    const Elements& elements = footprint_.parts().front();
    const bool may_be_on_gpu = by_hca && footprint_.bytes() >= kFromGpu;
    if (may_be_on_gpu || GpuPacking::pays(elements)) {
        packing_ = GpuPacking::make(driver, memory, buffer, elements);
    }
    if (may_be_on_gpu && packing_) {
        try {
            const ThreadStream stream(driver, device_);
            on_gpu_ = DeviceScratch(driver, stream, footprint_.bytes());
            return;
        } catch (const cuda::Error& error) { // the GPU's memory is full
            gdr_log(diag, "MPI's data are packed in host memory instead of the GPU's: %s",
                    error.what());
        }
    }
    on_host_ = StagingMemory(driver, device_, footprint_.bytes());
    if (!on_host_.mapped()) {
        packing_.reset();
    }
}

Word PackedShadow::address() const
{
    return reinterpret_cast<Word>(on_gpu_.data() != nullptr ? on_gpu_.data() : on_host_.data());
}

// Kernels have finished when this returns.
void PackedShadow::fetch(RowCopies& copies) const
{
    if (packing_) {
        packing_->pack(reinterpret_cast<void*>(address()));
    } else {
        issue(copies, footprint_);
    }
    count(footprint_.bytes());
}

void PackedShadow::put_back_first(uint64_t bytes) const
{
    bytes = std::min<uint64_t>(bytes, footprint_.bytes());
    if (packing_) {
        packing_->unpack(reinterpret_cast<const void*>(address()), bytes);
    } else {
        RowCopies copies(*driver_, Direction::to_device);
        if (bytes == footprint_.bytes()) {
            issue(copies, footprint_);
        } else {
            issue(copies, footprint_.first(bytes));
        }
        copies.wait();
    }
    count(bytes);
}

void PackedShadow::issue(RowCopies& copies, const Footprint& first) const
{
    char* packed = on_host_.data();
    for (const Run& run : first.runs()) {
        copies.issue_packed(device_, run, buffer_, packed);
        packed += run.length * run.rows;
    }
}

void PackedShadow::count(uint64_t bytes) const
{
    if (on_gpu_.data() != nullptr) {
        stats::statistics().add({.mpi_gpu_bytes = bytes});
    } else {
        stats::statistics().add({.mpi_staged_bytes = bytes});
    }
}

} // namespace gdr::mpi
