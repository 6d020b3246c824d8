// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creation and destruction of the streams on one GPU.

#include "streams/device_streams.hpp"

#include <algorithm>

namespace gdr::streams {

DeviceStreams::DeviceStreams(const cuda::Driver& driver, CUdevice device)
    : driver_(driver), device_(device)
{
    enter_context();
}

DeviceStreams::~DeviceStreams()
{
    std::optional<cuda::CurrentContext> current;
    try {
        if (alive()) {
            current.emplace(driver_, context_->handle());
        } else {
            abandon();
        }
    } catch (const cuda::Error&) { // before CUDA 12 alive() cannot tell that the context is gone
        abandon();
    }
    streams_.clear();
}

void DeviceStreams::enter_context()
{
    context_.emplace(driver_, device_);
    context_id_ = cuda::context_id(driver_, context_->handle());
}

Stream& DeviceStreams::operator[](size_t number)
{
    if (number >= streams_.size()) {
        streams_.resize(number + 1);
    }
    std::unique_ptr<Stream>& stream = streams_[number];
    if (!stream) {
        stream = std::make_unique<Stream>(driver_, context_->handle());
    }
    return *stream;
}

bool DeviceStreams::owns(const Stream& stream) const
{
    return std::ranges::any_of(streams_, [&](auto& own) { return own.get() == &stream; });
}

bool DeviceStreams::alive() const
{
    return context_ && context_id_ == cuda::context_id(driver_, context_->handle());
}

void DeviceStreams::abandon()
{
    for (auto& stream : streams_) {
        if (stream) {
            stream->abandon();
        }
    }
}

void DeviceStreams::renew_after_reset(std::vector<Operation>& lost)
{
    if (alive()) {
        return;
    }
    abandon();
    for_each_busy([&](Stream& stream) {
        while (std::optional<Operation> operation = stream.take_finished()) {
            lost.push_back(*operation);
        }
    });
    streams_.clear();
    enter_context();
}

} // namespace gdr::streams
