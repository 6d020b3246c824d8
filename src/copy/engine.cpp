// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Chooses how each piece of a copy is done.

#include "copy/engine.hpp"

#include "copy/host_memory.hpp"
#include "cuda/readable.hpp"
#include "cuda/recent.hpp"
#include "cuda/relaxed_capture.hpp"

#include <optional>
#include <stdexcept>

namespace gdr::copy {

namespace {

struct Place {
    char* address;
    cuda::Pointer memory;

    bool on_gpu() const { return memory.kind != cuda::MemoryKind::host; }

    // Memory of a pool or of cuMemCreate: streams of other GPUs can copy it only if the application
    // has given them access. Any stream can copy memory that a context owns.
    bool bound() const
    {
        return memory.kind == cuda::MemoryKind::device && memory.context == nullptr;
    }
};

Place find(const cuda::Driver& driver, const void* address)
{
    return {static_cast<char*>(const_cast<void*>(address)), cuda::finished(driver, address)};
}

// The streams of a GPU: one for each direction, so that copies in both directions overlap, and one
// for synchronous copies alone.
enum class Route { to_device, from_device, within_devices, synchronous };

Route route_of(const Place& destination, const Place& source)
{
    if (destination.on_gpu() && source.on_gpu()) {
        return Route::within_devices;
    }
    return destination.on_gpu() ? Route::to_device : Route::from_device;
}

[[noreturn]] void throw_inaccessible(const Place& place, size_t length)
{
    char text[128];
    snprintf(text, sizeof(text),
             "%zu bytes at %p are neither live CUDA memory nor accessible to the CPU", length,
             static_cast<void*>(place.address));
    throw std::runtime_error(text);
}

// Pinned memory is known to CUDA and thus accessible; any other address must be tried.
void require_accessible(const Place& place, size_t length)
{
    if (!place.on_gpu() && !place.memory.pinned && !cuda::readable(place.address, length)) {
        throw_inaccessible(place, length);
    }
}

} // namespace

// The pieces of one copy as they are given to CUDA. All go to the stream that the first piece
// chooses, so that one event covers the whole copy.
class Engine::Issue {
  public:
    enum class Wait { no, yes };

    Issue(Engine& engine, Wait wait) : engine_(engine), wait_(wait), relaxed_(engine.driver_) {}

    // After a failure the pieces issued before must not touch the caller's memory once the call
    // returns.
    ~Issue()
    {
        if (stream_ != nullptr && !ended_) {
            stream_->synchronise();
        }
    }

    void piece(const Place& destination, const Place& source, size_t length)
    {
        if (!destination.on_gpu() && !source.on_gpu()) {
            if (!copy_host(destination.address, source.address, length)) {
                throw_inaccessible(cuda::readable(source.address, length) ? destination : source,
                                   length);
            }
            return;
        }
        require_accessible(destination, length);
        require_accessible(source, length);
        if (stream_ == nullptr) {
            choose_stream(destination, source);
        }
        start(destination, source, length);
        if (destination.on_gpu() != source.on_gpu()) {
            ++engine_.counts_.staged_ops;
            engine_.counts_.staged_bytes += length;
        }
    }

    // Returns false if the CPU has done everything.
    bool add(uct_completion_t* completion)
    {
        if (stream_ == nullptr) {
            return false;
        }
        engine_.operations_.add(*stream_, completion);
        ended_ = true;
        return true;
    }

    // Waits for the only piece of the copy.
    void wait(const Place& destination, const Place& source, size_t length)
    {
        if (stream_ == nullptr) {
            return;
        }
        ended_ = true;
        const Place& host = destination.on_gpu() ? source : destination;
        const CUresult result =
            host.memory.pinned
                ? stream_->synchronise_copy(destination.on_gpu() ? streams::Direction::to_device
                                                                 : streams::Direction::from_device,
                                            length)
                : stream_->synchronise();
        cuda::check(result, "cuStreamSynchronize");
    }

  private:
    void choose_stream(const Place& destination, const Place& source)
    {
        const bool at_destination =
            destination.bound() || (destination.on_gpu() && !source.bound());
        const Place& gpu = at_destination ? destination : source;
        streams::DeviceStreams& streams = engine_.operations_.on(gpu.memory.device);
        current_.emplace(engine_.driver_, streams.context());
        const Route route = wait_ == Wait::yes ? Route::synchronous : route_of(destination, source);
        stream_ = &streams[static_cast<size_t>(route)];
    }

    void start(const Place& destination, const Place& source, size_t length)
    {
        const cuda::Driver& driver = engine_.driver_;
        const auto to = reinterpret_cast<CUdeviceptr>(destination.address);
        const auto from = reinterpret_cast<CUdeviceptr>(source.address);
        if (destination.bound() && source.bound() &&
            destination.memory.device != source.memory.device) {
            cuda::check(driver.cuMemcpyPeerAsync(to, context_of(destination), from,
                                                 context_of(source), length, stream_->handle()),
                        "cuMemcpyPeerAsync");
        } else {
            cuda::check(driver.cuMemcpyAsync(to, from, length, stream_->handle()), "cuMemcpyAsync");
        }
    }

    CUcontext context_of(const Place& gpu)
    {
        return engine_.operations_.on(gpu.memory.device).context();
    }

    Engine& engine_;
    const Wait wait_;
    const cuda::RelaxedCapture relaxed_;
    std::optional<cuda::CurrentContext> current_;
    streams::Stream* stream_ = nullptr;
    bool ended_ = false; // turned into an operation, or waited for
};

void Engine::start(Direction direction, std::span<const uct_iov_t> iov, void* remote,
                   uct_completion_t* completion)
{
    Issue issue(*this, Issue::Wait::no);
    std::optional<Place> far;
    for (const uct_iov_t& entry : iov) {
        for (unsigned i = 0; entry.length > 0 && i < entry.count; ++i) {
            if (!far) {
                far = find(driver_, remote);
            }
            Place near = find(driver_, static_cast<char*>(entry.buffer) + i * entry.stride);
            bool put = direction == Direction::put;
            issue.piece(put ? *far : near, put ? near : *far, entry.length);
            far->address += entry.length;
        }
    }
    if (!issue.add(completion)) {
        operations_.add_ended(completion);
    }
}

void Engine::copy_now(void* destination, const void* source, size_t length)
{
    if (length == 0) {
        return;
    }
    Issue issue(*this, Issue::Wait::yes);
    const Place to = find(driver_, destination), from = find(driver_, source);
    issue.piece(to, from, length);
    issue.wait(to, from, length);
}

} // namespace gdr::copy
