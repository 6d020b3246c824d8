// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/gpu/thread_stream.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace gdr::mpi {

namespace {

// A thread's streams on the GPUs that it has used. When the thread ends, the next thread takes them
// over: destroying streams would call CUDA while the process ends.
class Streams {
  public:
    streams::DeviceStreams& of(const cuda::Driver& driver, CUdevice device)
    {
        auto known =
            std::ranges::find(devices_, device, [](auto& streams) { return streams->device(); });
        return known != devices_.end()
                   ? **known
                   : *devices_.emplace_back(
                         std::make_unique<streams::DeviceStreams>(driver, device));
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

// Has no destructor, so that it can be read at the very end of the thread, after its lease has
// ended.
thread_local constinit bool lease_has_ended = false;

struct LeaseOfThread {
    const Lease streams;
    ~LeaseOfThread() { lease_has_ended = true; }
};

// own: receives the lease if the thread has none any more.
streams::DeviceStreams& streams_of(const cuda::Driver& driver, CUdevice device,
                                   std::shared_ptr<const void>& own)
{
    if (lease_has_ended) [[unlikely]] {
        const auto lease = std::make_shared<const Lease>();
        own = lease;
        return (**lease).of(driver, device);
    }
    static thread_local const LeaseOfThread thread;
    return (*thread.streams).of(driver, device);
}

} // namespace

ThreadStream::ThreadStream(const cuda::Driver& driver, CUdevice device)
    : driver_(driver), streams_(streams_of(driver, device, lease_))
{
    if (!streams_.current()) {
        std::vector<streams::Operation> none; // no copies are in flight between calls
        streams_.renew_after_reset(none);
        entered_.emplace(driver, streams_.context());
    }
    stream_ = &streams_[0];
}

void ThreadStream::copy(void* to, const void* from, size_t bytes) const
{
    if (bytes == 0 || to == from) {
        return;
    }
    cuda::check(driver_.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                      reinterpret_cast<CUdeviceptr>(from), bytes, handle()),
                "cuMemcpyAsync");
    wait();
}

} // namespace gdr::mpi
