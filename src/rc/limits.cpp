// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/limits.hpp"

#include <algorithm>

namespace gdr::rc {
namespace {

constexpr size_t kLargestMessage = size_t{1} << 30;

} // namespace

Limits::Limits(const Settings& settings, const ibv_device_attr& device, const ibv_port_attr& port)
    : segment_size_(static_cast<uint32_t>(settings.segment_size)),
      window_(static_cast<uint32_t>(settings.window)), queue_length_(settings.tx_queue_length),
      moderation_(std::min(settings.moderation, queue_length_ / 4)),
      max_iov_(std::min(static_cast<unsigned>(device.max_sge), kMaxSge) - 1),
      max_zcopy_(std::min<size_t>(port.max_msg_sz, kLargestMessage)),
      max_get_short_(settings.max_inline)
{
}

// Up to half of the buffers may be in use by work requests that nobody has signalled.
void Limits::fit_into_buffers(size_t buffers)
{
    const size_t pieces = std::min<size_t>(buffers, queue_length_) / 4;
    max_zcopy_ = std::min(max_zcopy_, segment_size_ * pieces);
}

void Limits::set_max_inline(unsigned bytes)
{
    if (bytes > 0) {
        inline_end_ = bytes + 1;
        payload_end_ = inline_end_ - static_cast<unsigned>(sizeof(uint64_t)); // after the header
    }
}

} // namespace gdr::rc
