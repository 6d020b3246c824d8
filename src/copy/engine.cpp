// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Choosing the way of each piece of a copy, and completing what has ended.

#include "copy/engine.hpp"

#include "abi/completion.hpp"
#include "abi/host.hpp"
#include "copy/host_memory.hpp"
#include "cuda/readable.hpp"
#include "cuda/relaxed_capture.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace gdr::copy {

namespace {

struct Place {
    char* address;
    cuda::Pointer memory;

    bool on_gpu() const { return memory.kind != cuda::MemoryKind::host; }

    // Memory of a pool or of cuMemCreate: streams of other GPUs may copy it only where the
    // application has given them access. What a context owns any stream copies.
    bool bound() const
    {
        return memory.kind == cuda::MemoryKind::device && memory.context == nullptr;
    }
};

Place find(const cuda::Driver& driver, const void* address)
{
    cuda::Pointer memory = cuda::classify(driver, address);
    cuda::finish_memops(driver, memory);
    return {static_cast<char*>(const_cast<void*>(address)), memory};
}

Route route_of(const Place& destination, const Place& source)
{
    if (destination.on_gpu() && source.on_gpu())
        return Route::within_devices;
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

// Pinned memory is known to CUDA, and thus accessible; any other address has to be tried.
void require_accessible(const Place& place, size_t length)
{
    if (!place.on_gpu() && !place.memory.pinned && !cuda::readable(place.address, length))
        throw_inaccessible(place, length);
}

} // namespace

// The pieces of one copy on their way to CUDA. All go to the stream that the first of them chooses,
// so that one event stands for the whole.
class Engine::Issue {
  public:
    enum class Wait { no, yes };

    Issue(Engine& engine, Wait wait) : engine_(engine), wait_(wait), relaxed_(engine.driver_) {}

    // What was issued before a failure must not touch the caller's memory after the call.
    ~Issue()
    {
        if (stream_ != nullptr && !ended_)
            stream_->synchronise();
    }

    void piece(const Place& destination, const Place& source, size_t length)
    {
        if (!destination.on_gpu() && !source.on_gpu()) {
            if (!copy_host(destination.address, source.address, length))
                throw_inaccessible(cuda::readable(source.address, length) ? destination : source,
                                   length);
            return;
        }
        require_accessible(destination, length);
        require_accessible(source, length);
        if (stream_ == nullptr)
            choose_stream(destination, source);
        start(destination, source, length);
        if (destination.on_gpu() != source.on_gpu()) {
            ++engine_.counts_.staged_ops;
            engine_.counts_.staged_bytes += length;
        }
    }

    // False when the CPU has done all there was to do.
    bool mark(uct_completion_t* completion, uint64_t sequence)
    {
        if (stream_ == nullptr)
            return false;
        stream_->mark(completion, sequence);
        ended_ = true;
        return true;
    }

    void wait()
    {
        if (stream_ == nullptr)
            return;
        ended_ = true;
        cuda::check(stream_->synchronise(), "cuStreamSynchronize");
    }

  private:
    void choose_stream(const Place& destination, const Place& source)
    {
        const bool at_destination =
            destination.bound() || (destination.on_gpu() && !source.bound());
        const Place& gpu = at_destination ? destination : source;
        DeviceStreams& streams = engine_.streams_of(gpu.memory.device);
        current_.emplace(engine_.driver_, streams.context());
        stream_ = &streams[wait_ == Wait::yes ? Route::synchronous : route_of(destination, source)];
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
        return engine_.streams_of(gpu.memory.device).context();
    }

    Engine& engine_;
    const Wait wait_;
    const cuda::RelaxedCapture relaxed_;
    std::optional<cuda::CurrentContext> current_;
    Stream* stream_ = nullptr;
    bool ended_ = false; // marked, or waited for
};

Engine::Engine(const cuda::Driver& driver)
    : driver_(driver), event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    if (event_fd_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
}

Engine::~Engine()
{
    devices_.clear(); // no notification is under way from here on
    close(event_fd_);
}

DeviceStreams& Engine::streams_of(CUdevice device)
{
    auto known =
        std::ranges::find(devices_, device, [](auto& streams) { return streams->device(); });
    if (known == devices_.end())
        return *devices_.emplace_back(std::make_unique<DeviceStreams>(driver_, device));
    (*known)->renew_after_reset(ended_);
    return **known;
}

template <class Function>
void Engine::for_each_busy(Function function)
{
    for (auto& streams : devices_) {
        for (auto& stream : *streams) {
            if (stream->busy())
                function(*streams, *stream);
        }
    }
}

void Engine::start(Direction direction, std::span<const uct_iov_t> iov, void* remote,
                   uct_completion_t* completion)
{
    Issue issue(*this, Issue::Wait::no);
    std::optional<Place> far;
    for (const uct_iov_t& entry : iov) {
        for (unsigned i = 0; entry.length > 0 && i < entry.count; ++i) {
            if (!far)
                far = find(driver_, remote);
            Place near = find(driver_, static_cast<char*>(entry.buffer) + i * entry.stride);
            bool put = direction == Direction::put;
            issue.piece(put ? *far : near, put ? near : *far, entry.length);
            far->address += entry.length;
        }
    }
    ++sequence_;
    if (!issue.mark(completion, sequence_))
        ended_.push_back({completion, sequence_, CUDA_SUCCESS});
    ++in_flight_;
}

void Engine::copy_now(void* destination, const void* source, size_t length)
{
    if (length == 0)
        return;
    Issue issue(*this, Issue::Wait::yes);
    issue.piece(find(driver_, destination), find(driver_, source), length);
    issue.wait();
}

void Engine::end(const Operation& operation)
{
    --in_flight_;
    ucs_status_t status = UCS_OK;
    if (operation.result != CUDA_SUCCESS) {
        gdr_log(error, "a copy failed: %s", cuda::error_text(operation.result).c_str());
        status = UCS_ERR_IO_ERROR;
    }
    abi::complete(operation.completion, status);
}

void Engine::collect_finished()
{
    const cuda::RelaxedCapture relaxed(driver_);
    for_each_busy([&](DeviceStreams&, Stream& stream) {
        while (std::optional<Operation> operation = stream.take_finished())
            ended_.push_back(*operation);
    });
}

unsigned Engine::progress()
{
    if (in_flight_ == 0)
        return 0;
    collect_finished();
    ending_.swap(ended_); // completions may start copies
    const auto count = static_cast<unsigned>(ending_.size());
    for (const Operation& operation : ending_)
        end(operation);
    ending_.clear();
    while (!flushes_.empty() && oldest_in_flight() > flushes_.front().sequence) {
        uct_completion_t* completion = flushes_.front().completion;
        flushes_.pop_front();
        abi::complete(completion, UCS_OK);
    }
    return count;
}

uint64_t Engine::oldest_in_flight()
{
    uint64_t oldest = UINT64_MAX;
    for (const Operation& operation : ended_)
        oldest = std::min(oldest, operation.sequence);
    for_each_busy(
        [&](DeviceStreams&, Stream& stream) { oldest = std::min(oldest, stream.oldest()); });
    return oldest;
}

ucs_status_t Engine::flush(uct_completion_t* completion)
{
    if (in_flight_ == 0)
        return UCS_OK;
    if (completion != nullptr)
        flushes_.push_back({completion, sequence_});
    return UCS_INPROGRESS;
}

void Engine::fence()
{
    for_each_busy([&](DeviceStreams&, Stream& stream) { stream.synchronise(); });
}

bool Engine::arm()
{
    eventfd_t wake_ups;
    eventfd_read(event_fd_, &wake_ups);
    bool sleep = ended_.empty();
    for_each_busy([&](DeviceStreams&, Stream& stream) { sleep = sleep && !stream.finished(); });
    if (sleep) {
        for_each_busy([&](DeviceStreams& streams, Stream& stream) {
            cuda::CurrentContext current(driver_, streams.context());
            stream.notify(event_fd_);
        });
    }
    return sleep;
}

} // namespace gdr::copy
