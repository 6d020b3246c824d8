// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The interface whose operations run on streams, and those calls of UCT that are the same for all
// such interfaces.
#pragma once

#include "abi/border.hpp"
#include "abi/iface.hpp"
#include "streams/operations.hpp"

#include <atomic>

namespace gdr::streams {

struct Iface : abi::Iface {
    Operations operations;
    std::atomic<unsigned> progress_wanted{0}; // UCX's asynchronous thread may ask for it
    unsigned idle_calls = 0;                  // of progress, since the last operation ended
    bool resting = false;                     // the worker was told not to call it

    explicit Iface(const cuda::Driver& driver) : operations(driver) {}
};

// Sets pending, flush, fence, progress, wake-up, a check of endpoints that finds nothing, and a
// device address of length 0. The rest is the transport's.
void set_operations(uct_iface_ops_t& ops);

// What the interface tells of itself: zero-copy puts, and gets where it reads, of any length, and
// the cost of one. The rest is the transport's.
struct Description {
    size_t address_length;
    size_t most_pieces;
    bool reads;
    abi::PerfEstimate cost;
};
void query(Iface* iface, const Description& description, uct_iface_attr_t* attr);

// As abi::guarded(). In a forked child, where no call of CUDA works, one line in all tells of it.
template <class Body>
ucs_status_t guarded(const char* call, Body body) noexcept
{
    return abi::guarded(call, [&]() -> ucs_status_t {
        try {
            return body();
        } catch (const cuda::Error& error) {
            if (!cuda::in_forked_child())
                throw;
            tell_of_failure(error.result());
            return UCS_ERR_IO_ERROR;
        }
    });
}

// UCS_INPROGRESS, after start() has added to the interface's operations. The worker calls an
// interface that has some, and for some thousand calls after the last.
template <class Start>
ucs_status_t started(Iface* iface, Start start)
{
    start();
    if (iface->resting) [[unlikely]] {
        iface->resting = false;
        abi::uct_base_iface_progress_enable(&iface->super, iface->progress_wanted.load());
    }
    return UCS_INPROGRESS;
}

// Ends the interface's part in progress, before it is closed.
void stop_progress(Iface* iface);

} // namespace gdr::streams
