// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The interface whose operations run on CUDA streams, and the UCT calls that all such interfaces
// share.
#pragma once

#include "abi/border.hpp"
#include "abi/iface.hpp"
#include "streams/operations.hpp"

#include <atomic>

namespace gdr::streams {

struct Iface : abi::Iface {
    Operations operations;
    std::atomic<unsigned> progress_wanted{0}; // UCX's async thread may change it
    unsigned idle_calls = 0;                  // progress calls since the last operation ended
    bool resting = false;                     // the worker no longer calls progress

    explicit Iface(const cuda::Driver& driver) : operations(driver) {}
};

// Sets the calls for pending, flush, fence, progress, wake-up, endpoint check (finds nothing) and
// device address (length 0). The transport sets the rest.
void set_operations(uct_iface_ops_t& ops);

// Interface attributes that depend on the transport. The interface offers zero-copy puts of any
// length, and gets if reads is set.
struct Description {
    size_t address_length;
    size_t most_pieces;
    bool reads;
    abi::PerfEstimate cost;
};
void query(Iface* iface, const Description& description, uct_iface_attr_t* attr);

// Like abi::guarded(). In a forked child, where no CUDA call works, only the first failure is
// logged.
template <class Body>
ucs_status_t guarded(const char* call, Body body) noexcept
{
    return abi::guarded(call, [&]() -> ucs_status_t {
        try {
            return body();
        } catch (const cuda::Error& error) {
            if (!cuda::in_forked_child()) {
                throw;
            }
            log_failure_in_child();
            return UCS_ERR_IO_ERROR;
        }
    });
}

// Calls start(), which adds to the interface's operations, and returns UCS_INPROGRESS. Makes the
// worker call the interface's progress again if it had stopped.
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

// Unregisters the interface's progress; to be called before the interface is closed.
void stop_progress(Iface* iface);

} // namespace gdr::streams
