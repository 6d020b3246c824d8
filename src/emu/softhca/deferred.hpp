// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Deferred RDMA WRITEs. A system call costs more than everything else about a small WRITE to
// another process. So it is left in the responder's completion queue, as an entry the application
// never sees, and the responder copies the bytes when it polls: in order with the messages around
// it, and before any later one is seen. The requester reports completion only once the bytes are in
// place. It takes the entry back and writes directly when the responder does not poll soon: before
// it goes to sleep, before an operation that must come after, or from its agent.
#pragma once

#include "emu/softhca/work_request.hpp"

#include <optional>

namespace softhca {

// Leaves a WRITE, whose source is memory of this process, to the responder; returns its position
// in the responder's completion queue, nothing when there is no room. Writes of a QP are numbered.
std::optional<std::uint64_t> defer_write(Process& self, Arena& remote, QpShared& peer,
                                         const WorkRequest& wr, const SegmentList& source,
                                         std::uint32_t number);

inline bool is_applied(const QpShared& peer, std::uint32_t number)
{
    return static_cast<std::int32_t>(peer.writes_applied.load(std::memory_order_acquire) -
                                     number) >= 0;
}

enum class Settled { applied, refused, unreachable };

// For the requester: sees to it that a write is applied, whatever the responder does.
Settled settle_write(Process& self, Arena& remote, QpShared& peer, std::uint64_t position,
                     std::uint32_t number);

enum class Applied { done, blocked, refused };

// Whether nobody has begun to apply the write in an entry.
inline bool is_pending(const Cqe& entry)
{
    return (entry.wqe.load() & 3) == static_cast<std::uint32_t>(Claim::pending);
}

// For the responder: applies the write in an entry of its completion queue. Blocked: the requester
// is just doing so.
Applied apply_write(Process& self, Cqe& entry, std::uint64_t position);

} // namespace softhca
