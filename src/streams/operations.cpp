// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Completes operations in the order in which the streams finish them.

#include "streams/operations.hpp"

#include "abi/completion.hpp"
#include "cuda/relaxed_capture.hpp"
#include "log/log.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

namespace gdr::streams {

namespace {

// A failed context fails every later copy for the same cause.
bool is_logged(CUresult result)
{
    static std::atomic<CUresult> logged{CUDA_SUCCESS};
    return logged.exchange(result) == result;
}

const char* cause_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return "The program reset the GPU (cudaDeviceReset) while the copy was in flight";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        return "The GPU has failed: dmesg (Xid) and nvidia-smi -q say more";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "The GPU has no memory left";
    default:
        return "An earlier kernel or copy of the program in this context may be the cause: "
               "compute-sanitizer finds it";
    }
}

void log_failure(CUresult result, CUdevice device)
{
    if (cuda::in_forked_child()) {
        return log_failure_in_child();
    }
    if (is_logged(result)) {
        return;
    }
    gdr_log(error,
            "a copy on GPU %d failed, and its operation ends with an error: %s. %s. Further copies "
            "that fail so are not reported",
            device, cuda::error_text(result).c_str(), cause_of(result));
}

} // namespace

void log_failure_in_child()
{
    static std::atomic<bool> logged{false};
    if (!logged.exchange(true)) {
        gdr_log(error, "copies of GPU memory fail: %s", cuda::unavailable_reason().c_str());
    }
}

Operations::Operations(const cuda::Driver& driver)
    : driver_(driver), event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))
{
    if (event_fd_ < 0) {
        throw std::system_error(errno, std::generic_category(), "eventfd");
    }
}

Operations::~Operations()
{
    devices_.clear(); // waits for notifications that are under way
    close(event_fd_);
}

// nullptr: the device has not been used yet.
DeviceStreams* Operations::known(CUdevice device) const
{
    const auto found =
        std::ranges::find(devices_, device, [](auto& streams) { return streams->device(); });
    return found == devices_.end() ? nullptr : found->get();
}

CUdevice Operations::device_of(const Stream& stream) const
{
    return (*std::ranges::find_if(devices_, [&](auto& streams) { return streams->owns(stream); }))
        ->device();
}

DeviceStreams& Operations::on(CUdevice device)
{
    DeviceStreams* const streams = known(device);
    if (streams == nullptr) {
        return *devices_.emplace_back(std::make_unique<DeviceStreams>(driver_, device));
    }
    if (!streams->alive()) [[unlikely]] {
        streams->for_each_busy([&](Stream& stream) {
            log_failure(CUDA_ERROR_CONTEXT_IS_DESTROYED, device);
            std::erase(busy_, &stream);
        });
        streams->renew_after_reset(ended_);
    }
    return *streams;
}

DeviceStreams& Operations::on(CUdevice device, std::optional<cuda::CurrentContext>& current)
{
    if (DeviceStreams* const streams = known(device); streams != nullptr && streams->current())
        [[likely]] {
        return *streams;
    }
    DeviceStreams& streams = on(device);
    current.emplace(driver_, streams.context());
    return streams;
}

void Operations::add(Stream& stream, uct_completion_t* completion)
{
    add_together(stream, completion);
    stream.mark();
}

void Operations::add_together(Stream& stream, uct_completion_t* completion)
{
    const bool idle = !stream.busy();
    if (idle) {
        busy_.reserve(busy_.size() + 1); // may throw, so it comes before the operation is added
    }
    stream.add(completion, ++sequence_);
    if (idle) {
        busy_.push_back(&stream);
    }
    ++in_flight_;
    marked_ = false;
}

void Operations::add_ended(uct_completion_t* completion)
{
    ended_.push_back({completion, ++sequence_, CUDA_SUCCESS});
    ++in_flight_;
}

void Operations::end(const Operation& operation)
{
    --in_flight_;
    abi::complete(operation.completion,
                  operation.result == CUDA_SUCCESS ? UCS_OK : UCS_ERR_IO_ERROR);
}

void Operations::mark()
{
    if (std::exchange(marked_, true)) [[likely]] {
        return;
    }
    for (Stream* stream : busy_) {
        if (stream->marked()) {
            continue;
        }
        try {
            const cuda::CurrentContext current(driver_, stream->context());
            stream->mark();
        } catch (const cuda::Error&) { // a device reset has destroyed it
            stream->abandon();
        }
    }
}

void Operations::collect_finished()
{
    const cuda::RelaxedCapture relaxed(driver_);
    mark();
    for (size_t i = 0; i < busy_.size();) {
        Stream& stream = *busy_[i];
        while (std::optional<Operation> operation = stream.take_finished()) {
            if (operation->result != CUDA_SUCCESS) [[unlikely]] {
                log_failure(operation->result, device_of(stream));
            }
            ended_.push_back(*operation);
        }
        if (stream.busy()) [[likely]] {
            ++i;
        } else {
            busy_.erase(busy_.begin() + static_cast<ptrdiff_t>(i));
        }
    }
}

unsigned Operations::progress()
{
    if (in_flight_ == 0) {
        return 0;
    }
    collect_finished();
    if (ended_.empty()) [[likely]] {
        return 0;
    }
    ending_.swap(ended_); // completions may start operations
    const auto count = static_cast<unsigned>(ending_.size());
    for (const Operation& operation : ending_) {
        end(operation);
    }
    ending_.clear();
    while (!flushes_.empty() && oldest_in_flight() > flushes_.front().sequence) {
        uct_completion_t* completion = flushes_.front().completion;
        flushes_.pop_front();
        abi::complete(completion, UCS_OK);
    }
    return count;
}

uint64_t Operations::oldest_in_flight()
{
    uint64_t oldest = UINT64_MAX;
    for (const Operation& operation : ended_) {
        oldest = std::min(oldest, operation.sequence);
    }
    for (const Stream* stream : busy_) {
        oldest = std::min(oldest, stream->oldest());
    }
    return oldest;
}

ucs_status_t Operations::flush(uct_completion_t* completion)
{
    if (in_flight_ == 0) {
        return UCS_OK;
    }
    if (completion != nullptr) {
        flushes_.push_back({completion, sequence_});
    }
    return UCS_INPROGRESS;
}

void Operations::fence()
{
    for (Stream* stream : busy_) {
        stream->synchronise();
    }
}

bool Operations::arm()
{
    eventfd_t wake_ups;
    if (!cuda::in_forked_child()) { // the parent, which may sleep, shares the eventfd
        eventfd_read(event_fd_, &wake_ups);
    }
    mark();
    bool sleep = ended_.empty();
    for (Stream* stream : busy_) {
        sleep = sleep && !stream->finished();
    }
    if (sleep) {
        for (Stream* stream : busy_) {
            cuda::CurrentContext current(driver_, stream->context());
            stream->notify(event_fd_);
        }
    }
    return sleep;
}

} // namespace gdr::streams
