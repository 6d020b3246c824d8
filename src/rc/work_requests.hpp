// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The numbers and ids of work requests. A receive's id is an address (receives.hpp). A send's id
// has kSendBit and names the endpoint, by its slot in the table of endpoints and the slot's
// generation; its highest bits are the sequence number, which wraps around. The id of an accepted
// queue pair's send also has kAcceptedBit: the queue pair number replaces the generation, and the
// slot is the one that belongs to no endpoint.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

namespace gdr::rc {

// Position in an endpoint's sequence of work requests; compared modulo 2^16.
using SequenceNumber = uint16_t;

inline bool not_after(SequenceNumber a, SequenceNumber b)
{
    return static_cast<int16_t>(static_cast<SequenceNumber>(a - b)) <= 0;
}

inline constexpr uint64_t kSendBit = 1;
inline constexpr uint64_t kAcceptedBit = 2;
inline constexpr unsigned kIdShift = 2;
inline constexpr unsigned kSlotBits = 20;
inline constexpr unsigned kGenerationBits = 26;
inline constexpr unsigned kGenerationShift = kIdShift + kSlotBits;
inline constexpr unsigned kNumberShift = 48;
inline constexpr uint64_t kNextNumber = uint64_t{1} << kNumberShift;
static_assert(alignof(ibv_recv_wr) > (kSendBit | kAcceptedBit));
static_assert(kGenerationShift + kGenerationBits <= kNumberShift);

inline uint32_t slot_of(uint64_t wr_id)
{
    return wr_id >> kIdShift & ((1u << kSlotBits) - 1);
}
// The id before an endpoint's first work request.
inline uint64_t wr_id_of(uint64_t id)
{
    return id << kIdShift | kSendBit;
}
inline SequenceNumber number_of(uint64_t wr_id)
{
    return static_cast<SequenceNumber>(wr_id >> kNumberShift);
}
// Whether both ids are of the same endpoint: only their numbers differ.
inline bool same_endpoint(uint64_t wr_id, uint64_t other)
{
    return (wr_id ^ other) << (64 - kNumberShift) == 0;
}

} // namespace gdr::rc
