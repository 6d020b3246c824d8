// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One copy for each run. If its rows are apart, the copy is two-dimensional.
#include "mpi/gpu/device_copies.hpp"

#include <utility>

namespace gdr::mpi {

namespace {

constexpr ptrdiff_t kLargestPitch = 1 << 30; // GPUs take 2 GiB less a byte

void issue_one_by_one(const cuda::Driver& driver, Rows to, Rows from, size_t length, size_t rows,
                      CUstream stream)
{
    for (size_t row = 0; row < rows; ++row) {
        cuda::check(driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to.first),
                                         reinterpret_cast<CUdeviceptr>(from.first), length, stream),
                    "cuMemcpyAsync");
        to.first += to.stride;
        from.first += from.stride;
    }
}

bool pitch_allows(const Rows& rows, size_t length)
{
    return rows.stride >= static_cast<ptrdiff_t>(length) && rows.stride <= kLargestPitch;
}

void issue_all(const cuda::Driver& driver, Rows to, Rows from, size_t length, size_t rows,
               CUstream stream)
{
    if (to.stride == static_cast<ptrdiff_t>(length) && from.stride == to.stride) {
        length *= rows;
        rows = 1;
    }
    if (rows == 1 || !pitch_allows(to, length) || !pitch_allows(from, length)) {
        issue_one_by_one(driver, to, from, length, rows, stream);
        return;
    }
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = reinterpret_cast<CUdeviceptr>(from.first);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(to.first);
    copy.srcPitch = static_cast<size_t>(from.stride);
    copy.dstPitch = static_cast<size_t>(to.stride);
    copy.WidthInBytes = length;
    copy.Height = rows;
    cuda::check(driver.cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
}

} // namespace

size_t number_of_copies(const Elements& elements)
{
    Runs runs;
    append_repeated(runs, elements.runs, elements.count, elements.extent, 0);
    size_t copies = 0;
    for (const Run& run : runs) {
        copies += pitch_allows({nullptr, run.stride}, run.length) ? 1 : run.rows;
    }
    return copies;
}

RowCopies::~RowCopies()
{
    if (bytes_ == 0) {
        return;
    }
    try {
        enter(device_).settle();
    } catch (const cuda::Error&) { // the GPU was reset, which has ended them
    }
}

const ThreadStream& RowCopies::enter(CUdevice device)
{
    if (!scope_ || device_ != device) {
        scope_.emplace(driver_, device);
    }
    device_ = device;
    return scope_->stream;
}

void RowCopies::issue(CUdevice device, Rows on_device, Rows on_host, size_t length, size_t rows)
{
    if (device_ != device) {
        wait();
    }
    const ThreadStream& stream = enter(device);
    bytes_ += length * rows;
    const bool to_device = direction_ == Direction::to_device;
    issue_all(cuda::plain_driver(), to_device ? on_device : on_host,
              to_device ? on_host : on_device, length, rows, stream.handle());
}

void RowCopies::issue(CUdevice device, const Footprint& footprint, void* on_device, void* on_host)
{
    for (const Run& run : footprint.runs()) {
        issue(device, {static_cast<char*>(on_device) + run.offset, run.stride},
              {static_cast<char*>(on_host) + run.offset, run.stride}, run.length, run.rows);
    }
}

void RowCopies::issue_packed(CUdevice device, const Run& run, void* on_device, void* packed)
{
    issue(device, {static_cast<char*>(on_device) + run.offset, run.stride},
          {static_cast<char*>(packed), static_cast<ptrdiff_t>(run.length)}, run.length, run.rows);
}

void RowCopies::wait()
{
    if (bytes_ > 0) {
        enter(device_).wait_for_copy(direction_, std::exchange(bytes_, 0));
    }
}

} // namespace gdr::mpi
