// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/gpu_packing.hpp"

#include "mpi/gpu/device_memory.hpp"
#include "mpi/gpu/device_scratch.hpp"

#include <algorithm>
#include <utility>

namespace gdr::mpi {

namespace {

// A launch takes as long as a copy, some 8 us, and the kernels are loaded once, which takes tens of
// milliseconds: few short copies do without. Rows at one distance are one copy.
constexpr uint64_t kFewBytes = 4096;
constexpr uint64_t kFewCopies = 4;

// What goes to or from host memory is packed in pieces of this.
constexpr uint64_t kPiece = uint64_t{4} << 20;

bool pays(const Elements& elements)
{
    if (elements.in_one_piece())
        return false;
    const auto count = static_cast<uint64_t>(elements.count);
    const uint64_t copies = elements.runs.size() == 1 ? 1 : elements.runs.size() * count;
    return copies > kFewCopies || elements.element_bytes() * count > kFewBytes;
}

} // namespace

std::optional<GpuPacking> GpuPacking::make(const cuda::Driver& driver, const cuda::Pointer& memory,
                                           void* buffer, const Elements& elements)
{
    if (!pays(elements))
        return std::nullopt;
    const ThreadStream stream(driver, memory.device);
    const auto origin = reinterpret_cast<uintptr_t>(buffer); // 0: MPI_BOTTOM
    if (!GpuKernels::reach(stream, memory, origin + elements.low(), origin + elements.high()))
        return std::nullopt;
    auto packing = GpuKernels::of(driver, stream).packing(elements);
    if (!packing)
        return std::nullopt;
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
    if (!memory || !GpuKernels::reach(stream, *memory, begin_, end_))
        cuda::check(CUDA_ERROR_INVALID_VALUE, "a kernel for memory that was freed");
}

void GpuPacking::pack(void* packed) const
{
    const ThreadStream stream(*driver_, device_);
    check_buffer(stream);
    packing_->pack(buffer_, count_, 0, bytes(), packed, stream.handle());
    stream.wait();
}

void GpuPacking::unpack(const void* packed) const
{
    const ThreadStream stream(*driver_, device_);
    check_buffer(stream);
    packing_->unpack(buffer_, count_, 0, bytes(), packed, stream.handle());
    stream.wait();
}

// move(stream, from, to, scratch) for parts of the packed bytes that fit into the scratch, which is
// used again in the stream's order.
template <typename Move>
void GpuPacking::move_pieces(Move move) const
{
    const ThreadStream stream(*driver_, device_);
    check_buffer(stream);
    const uint64_t all = bytes();
    const DeviceScratch scratch(*driver_, stream, std::min(all, kPiece));
    try {
        for (uint64_t from = 0; from < all; from += kPiece)
            move(stream.handle(), from, std::min(all, from + kPiece), scratch.data());
    } catch (...) {
        stream.settle();
        throw;
    }
    stream.wait();
}

void GpuPacking::pack_to_host(char* packed) const
{
    move_pieces([&](CUstream stream, uint64_t from, uint64_t to, char* scratch) {
        packing_->pack(buffer_, count_, from, to, scratch, stream);
        cuda::check(driver_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(packed + from),
                                           reinterpret_cast<CUdeviceptr>(scratch), to - from,
                                           stream),
                    "cuMemcpyAsync");
    });
}

void GpuPacking::unpack_from_host(const char* packed) const
{
    move_pieces([&](CUstream stream, uint64_t from, uint64_t to, char* scratch) {
        cuda::check(driver_->cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(scratch),
                                           reinterpret_cast<CUdeviceptr>(packed + from), to - from,
                                           stream),
                    "cuMemcpyAsync");
        packing_->unpack(buffer_, count_, from, to, scratch, stream);
    });
}

} // namespace gdr::mpi
