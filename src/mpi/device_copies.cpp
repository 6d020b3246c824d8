// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// One copy for each run: of rows that are apart, a two-dimensional one.
#include "mpi/device_copies.hpp"

#include "cuda/context.hpp"
#include "streams/device_streams.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace gdr::mpi {

namespace {

constexpr ptrdiff_t kLargestPitch = 1 << 30; // GPUs take 2 GiB less a byte

// A thread's, on the GPUs it has used. When the thread ends the next takes them over: destroying
// streams would call CUDA while the process ends.
class Streams {
  public:
    streams::DeviceStreams& of(const cuda::Driver& driver, CUdevice device)
    {
        auto known =
            std::ranges::find(devices_, device, [](auto& streams) { return streams->device(); });
        if (known == devices_.end())
            return *devices_.emplace_back(std::make_unique<streams::DeviceStreams>(driver, device));
        std::vector<streams::Operation> none; // nothing is in flight between calls
        (*known)->renew_after_reset(none);
        return **known;
    }

  private:
    std::vector<std::unique_ptr<streams::DeviceStreams>> devices_;
};

class Lease {
  public:
    Lease()
    {
        Shelf& shelf = Lease::shelf();
        const std::lock_guard guard(shelf.mutex);
        if (shelf.free.empty()) {
            streams_ = new Streams;
            shelf.free.reserve(++shelf.made);
        } else {
            streams_ = shelf.free.back();
            shelf.free.pop_back();
        }
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease()
    {
        Shelf& shelf = Lease::shelf();
        const std::lock_guard guard(shelf.mutex);
        shelf.free.push_back(streams_);
    }

    Streams& operator*() const { return *streams_; }

  private:
    struct Shelf {
        std::mutex mutex;
        size_t made = 0;
        std::vector<Streams*> free;
    };
    static Shelf& shelf()
    {
        static auto& instance = *new Shelf; // threads may end after static destructors
        return instance;
    }

    Streams* streams_;
};

streams::DeviceStreams& streams_of(const cuda::Driver& driver, CUdevice device)
{
    static thread_local const Lease streams;
    return (*streams).of(driver, device);
}

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

CUcontext context_of(const cuda::Driver& driver, CUdevice device)
{
    return streams_of(driver, device).context();
}

void copy_now(const cuda::Driver& driver, CUdevice device, const Footprint& footprint,
              void* on_device, void* on_host, Direction direction)
{
    streams::DeviceStreams& streams = streams_of(driver, device);
    const cuda::CurrentContext current(driver, streams.context());
    streams::Stream& stream = streams[0];
    char* to = static_cast<char*>(direction == Direction::to_device ? on_device : on_host);
    const char* from = static_cast<char*>(direction == Direction::to_device ? on_host : on_device);
    try {
        for (const Run& run : footprint.runs())
            issue(driver, run, to, from, stream.handle());
    } catch (...) {
        stream.synchronise(); // nothing goes on behind the caller's back
        throw;
    }
    cuda::check(stream.synchronise(), "cuStreamSynchronize");
}

} // namespace gdr::mpi
