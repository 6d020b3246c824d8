// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/gpu_packing.hpp"

#include "mpi/gpu/device_copies.hpp"
#include "mpi/gpu/device_memory.hpp"

#include <utility>

namespace gdr::mpi {

namespace {

// A kernel takes some 3 us longer than a copy. A copy takes 3 us more for a thousand rows, and 2 us
// more for each other copy under way.
constexpr uint64_t kFewRows = 2048;
constexpr size_t kFewCopies = 2;

} // namespace

bool GpuPacking::pays(const Elements& elements)
{
    uint64_t rows = 0;
    for (const Run& run : elements.runs) {
        rows += run.rows;
    }
    return !elements.in_one_piece() && (rows * static_cast<uint64_t>(elements.count) > kFewRows ||
                                        number_of_copies(elements) > kFewCopies);
}

std::optional<GpuPacking> GpuPacking::make(const cuda::Driver& driver, const cuda::Pointer& memory,
                                           void* buffer, const Elements& elements)
{
    const ThreadStream stream(driver, memory.device);
    const auto origin = reinterpret_cast<uintptr_t>(buffer); // 0: MPI_BOTTOM
    if (!GpuKernels::reach(stream, memory, origin + elements.low(), origin + elements.high())) {
        return std::nullopt;
    }
    auto packing = GpuKernels::of(driver, stream).packing(elements, buffer);
    if (!packing) {
        return std::nullopt;
    }
    return GpuPacking(driver, memory.device, std::move(packing), buffer, elements);
}

GpuPacking::GpuPacking(const cuda::Driver& driver, CUdevice device,
                       std::shared_ptr<const kernels::Packing> packing, void* buffer,
                       const Elements& elements)
    : driver_(&driver), device_(device), packing_(std::move(packing)), buffer_(buffer),
      count_(static_cast<uint64_t>(elements.count)),
      begin_(reinterpret_cast<uintptr_t>(buffer) + elements.low()),
      end_(reinterpret_cast<uintptr_t>(buffer) + elements.high())
{
}

void GpuPacking::check_buffer(const ThreadStream& stream) const
{
    const auto memory = find_device_memory(*driver_, reinterpret_cast<const void*>(begin_));
    if (!memory || !GpuKernels::reach(stream, *memory, begin_, end_)) {
        cuda::check(CUDA_ERROR_INVALID_VALUE, "a kernel for memory that was freed");
    }
}

// launch(stream). After an error none of the work continues once this has thrown.
template <typename Launch>
void GpuPacking::run(Launch launch) const
{
    const ThreadStream stream(*driver_, device_);
    check_buffer(stream);
    try {
        launch(stream.handle());
    } catch (...) {
        stream.settle();
        throw;
    }
    stream.wait();
}

void GpuPacking::pack(void* packed) const
{
    run([&](CUstream stream) { packing_->pack(buffer_, count_, 0, bytes(), packed, stream); });
}

void GpuPacking::unpack(const void* packed, uint64_t first) const
{
    run([&](CUstream stream) { packing_->unpack(buffer_, count_, 0, first, packed, stream); });
}

} // namespace gdr::mpi
