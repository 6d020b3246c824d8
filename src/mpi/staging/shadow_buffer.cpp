// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/staging/shadow_buffer.hpp"

#include "stats/statistics.hpp"

#include <cstring>
#include <utility>

namespace gdr::mpi {

namespace {

// Packings of all parts, or none.
std::vector<GpuPacking> packings_of(const cuda::Driver& driver, const cuda::Pointer& memory,
                                    void* buffer, const Footprint& footprint)
{
    std::vector<GpuPacking> packings;
    try {
        for (const Elements& part : footprint.parts()) {
            if (!GpuPacking::pays(part)) {
                return {};
            }
            auto packing = GpuPacking::make(driver, memory, buffer, part);
            if (!packing) {
                return {};
            }
            packings.push_back(std::move(*packing));
        }
    } catch (const cuda::Error&) { // the GPU's memory is full
        return {};
    }
    return packings;
}

// copy(where, length) for each run of each element, in the order of packing.
template <typename Copy>
void for_each_run(const Elements& elements, char* origin, Copy copy)
{
    for (int64_t i = 0; i < elements.count; ++i) {
        for (const Run& run : elements.runs) {
            char* where = origin + i * elements.extent + run.offset;
            for (size_t row = 0; row < run.rows; ++row, where += run.stride) {
                copy(where, run.length);
            }
        }
    }
}

} // namespace

ShadowBuffer::ShadowBuffer(const cuda::Driver& driver, const cuda::Pointer& memory, void* buffer,
                           Footprint&& footprint)
    : driver_(&driver), device_(memory.device), buffer_(buffer), footprint_(std::move(footprint)),
      packings_(packings_of(driver, memory, buffer, footprint_)),
      memory_(driver, device_, static_cast<size_t>(footprint_.high() - footprint_.low()))
{
}

// The CPU copies what kernels have packed to its places. This takes some nanoseconds for each run,
// where a copy from the GPU takes microseconds.
void ShadowBuffer::fetch(RowCopies& copies) const
{
    if (packings_.empty() || !packed(&ShadowBuffer::fetch_packed)) {
        issue(copies, footprint_);
    }
}

void ShadowBuffer::put_back() const
{
    if (packings_.empty() || !packed(&ShadowBuffer::put_back_packed)) {
        copy(footprint_, Direction::to_device);
    }
}

void ShadowBuffer::put_back_first(uint64_t bytes) const
{
    if (bytes >= footprint_.bytes()) {
        put_back();
    } else {
        put_back(footprint_.first(bytes));
    }
}

// False: packing failed, and the caller copies everything again.
bool ShadowBuffer::packed(void (ShadowBuffer::*all)() const) const
{
    try {
        (this->*all)();
    } catch (const cuda::Error&) {
        return false;
    }
    stats::statistics().add({.mpi_staged_bytes = footprint_.bytes()});
    return true;
}

void ShadowBuffer::fetch_packed() const
{
    for (size_t i = 0; i < packings_.size(); ++i) {
        const StagingMemory packed = room_for(packings_[i]);
        packings_[i].pack(packed.data());
        const char* from = packed.data();
        for_each_run(footprint_.parts()[i], origin(), [&](char* where, size_t length) {
            std::memcpy(where, from, length);
            from += length;
        });
    }
}

void ShadowBuffer::put_back_packed() const
{
    for (size_t i = 0; i < packings_.size(); ++i) {
        const StagingMemory packed = room_for(packings_[i]);
        char* to = packed.data();
        for_each_run(footprint_.parts()[i], origin(), [&](const char* where, size_t length) {
            std::memcpy(to, where, length);
            to += length;
        });
        packings_[i].unpack(packed.data());
    }
}

// Host memory that kernels can access.
StagingMemory ShadowBuffer::room_for(const GpuPacking& packing) const
{
    StagingMemory packed(*driver_, device_, packing.bytes());
    if (!packed.mapped()) {
        cuda::check(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory for kernels");
    }
    return packed;
}

void ShadowBuffer::copy(const Footprint& part, Direction direction) const
{
    RowCopies copies(*driver_, direction);
    issue(copies, part);
    copies.wait();
}

void ShadowBuffer::issue(RowCopies& copies, const Footprint& part) const
{
    copies.issue(device_, part, buffer_, origin());
    stats::statistics().add({.mpi_staged_bytes = part.bytes()});
}

} // namespace gdr::mpi
