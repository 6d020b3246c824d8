// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Calls with arguments that the interface does not accept. They fail with the status of UCX's own
// transports, as calls without resources do; the endpoint remains usable.
#pragma once

#include "rc/endpoint.hpp"

#include <initializer_list>

namespace gdr::rc {

// The limit of one argument of a call.
struct Limit {
    const char* what;
    size_t given;
    size_t most;

    bool exceeded() const { return given > most; }
};

// One branch for all limits. refused() gets new ones, because keeping these would cost stores.
inline bool exceeded(const auto&... limits)
{
    return (static_cast<unsigned>(limits.exceeded()) | ...) != 0;
}

inline Limit limit_id(uint8_t id)
{
    return {"the active message id", id, UCT_AM_ID_MAX - 1};
}
inline Limit limit_pieces(const Endpoint& ep, size_t iovcnt)
{
    return {"the number of pieces (iovcnt)", iovcnt, ep.iface().limits.max_iov()};
}
inline Limit limit_length(size_t given, size_t most)
{
    return {"the length", given, most};
}
inline Limit limit_header(size_t given)
{
    return {"the length of the header", given, kMaxHeader};
}
inline Limit limit_misalignment(uint64_t remote_addr, size_t size)
{
    return {"the remote address modulo the operand's size", remote_addr % size, 0};
}

// Why a call does nothing: logs the first limit that is exceeded, or else returns unavailable().
[[gnu::cold]] ucs_status_t refused(Endpoint& ep, const char* call,
                                   std::initializer_list<Limit> limits);

} // namespace gdr::rc
