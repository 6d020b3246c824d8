// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The lengths and numbers that an interface accepts. They are fixed once it is open.
#pragma once

#include "rc/queues/settings.hpp"
#include "verbs/device.hpp"

#include <cstddef>
#include <cstdint>

namespace gdr::rc {

inline constexpr unsigned kMaxSge = 5;    // more would lengthen the entries of a send queue
inline constexpr size_t kMaxHeader = 256; // of a zero-copy active message

class Limits {
  public:
    // The largest short put of an interface that checks the memory type: one byte less than the
    // size from which UCP's protocols v1 put from registered memory.
    static constexpr size_t kMaxPutOfAnyMemory = 16383;
    // The largest payload of a short operation, without an active message's header. It goes through
    // a buffer if it does not fit into a work request: UCP then makes no request. Longer ones are
    // faster without a copy.
    static constexpr size_t kMaxShort = 4096;

    Limits(const Settings& settings, const ibv_device_attr& device, const ibv_port_attr& port);

    // For transfers that take several buffers at once, which must find enough of them.
    void fit_into_buffers(size_t buffers);

    // As granted to a queue pair; 0: the HCA has no inline data.
    void set_max_inline(unsigned bytes);

    // Data shorter than inline_end goes inside its work request, and so does an active message's
    // payload shorter than payload_end. 0: the HCA has no inline data, not even empty ones.
    unsigned inline_end() const { return inline_end_; }
    unsigned payload_end() const { return payload_end_; }

    uint32_t segment_size() const { return segment_size_; }
    uint32_t window() const { return window_; } // a power of two
    unsigned queue_length() const { return queue_length_; }
    unsigned moderation() const { return moderation_; } // work requests until one is signalled
    unsigned max_iov() const { return max_iov_; }
    size_t max_zcopy() const { return max_zcopy_; }
    size_t max_get_short() const { return max_get_short_; }

  private:
    unsigned inline_end_ = 0;
    unsigned payload_end_ = 0;
    uint32_t segment_size_;
    uint32_t window_;
    unsigned queue_length_;
    unsigned moderation_;
    unsigned max_iov_;
    size_t max_zcopy_;
    size_t max_get_short_;
};

} // namespace gdr::rc
