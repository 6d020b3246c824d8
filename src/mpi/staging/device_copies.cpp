// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One copy for each run: of rows that are apart, a two-dimensional one.
#include "mpi/staging/device_copies.hpp"

#include "cuda/relaxed_capture.hpp"
#include "mpi/gpu/thread_stream.hpp"

namespace gdr::mpi {

namespace {

constexpr ptrdiff_t kLargestPitch = 1 << 30; // GPUs take 2 GiB less a byte

void issue_rows(const cuda::Driver& driver, const Run& run, char* to, const char* from,
                CUstream stream)
{
    for (size_t row = 0; row < run.rows; ++row) {
        const ptrdiff_t at = run.offset + run.stride * static_cast<ptrdiff_t>(row);
        cuda::check(driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to + at),
                                         reinterpret_cast<CUdeviceptr>(from + at), run.length,
                                         stream),
                    "cuMemcpyAsync");
    }
}

void issue(const cuda::Driver& driver, Run run, char* to, const char* from, CUstream stream)
{
    if (run.in_one_piece())
        run = {run.offset, run.length * run.rows, 0, 1};
    if (run.rows == 1 || run.stride < static_cast<ptrdiff_t>(run.length) ||
        run.stride > kLargestPitch) {
        issue_rows(driver, run, to, from, stream);
        return;
    }
    CUDA_MEMCPY2D rows = {};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    rows.srcDevice = reinterpret_cast<CUdeviceptr>(from + run.offset);
    rows.dstDevice = reinterpret_cast<CUdeviceptr>(to + run.offset);
    rows.srcPitch = rows.dstPitch = static_cast<size_t>(run.stride);
    rows.WidthInBytes = run.length;
    rows.Height = run.rows;
    cuda::check(driver.cuMemcpy2DAsync(&rows, stream), "cuMemcpy2DAsync");
}

} // namespace

void copy_now(const cuda::Driver& driver, CUdevice device, const Footprint& footprint,
              void* on_device, void* on_host, Direction direction)
{
    const cuda::RelaxedCapture relaxed(driver); // once for all of it
    const ThreadStream stream(driver, device);
    char* to = static_cast<char*>(direction == Direction::to_device ? on_device : on_host);
    const char* from = static_cast<char*>(direction == Direction::to_device ? on_host : on_device);
    try {
        for (const Run& run : footprint.runs())
            issue(driver, run, to, from, stream.handle());
    } catch (...) {
        stream.settle();
        throw;
    }
    stream.wait();
}

} // namespace gdr::mpi
