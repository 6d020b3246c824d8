// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The interface whose operations run on CUDA streams, and the UCT calls that all such interfaces
// share.
#pragma once

#include "abi/border.hpp"
#include "abi/iface.hpp"
#include "streams/operations.hpp"

#include <atomic>
#include <cstring>
#include <memory>

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

// ---- life of interfaces and endpoints

// The driver for an interface of this transport. nullptr: there is none, and the log says so.
const cuda::Driver* driver_for(const char* transport);

// The driver for a memory domain. Throws the reason if there is none.
const cuda::Driver& require_driver();

// Hands an interface to UCT, which ends it by iface_close.
template <class Own>
ucs_status_t hand_over(std::unique_ptr<Own> iface, uct_iface_ops_t* ops,
                       const abi::InternalOps* internal, uct_md_h md, uct_worker_h worker,
                       const uct_iface_params_t* params, const uct_iface_config_t* config,
                       uct_iface_h* handle)
{
    const ucs_status_t status =
        abi::init_iface(iface.get(), ops, internal, md, worker, params, config);
    if (status == UCS_OK) {
        *handle = &iface.release()->super;
    }
    return status;
}

// In iface_close, when its counts have been added to the totals.
void end(Iface* iface);
template <class Own>
void close(Own* iface)
{
    end(iface);
    delete iface;
}

// The interface's Own::address, for UCT.
template <class Own>
ucs_status_t get_address(uct_iface_h iface, uct_iface_addr_t* address)
{
    const auto& own = reinterpret_cast<Own*>(iface)->address;
    std::memcpy(address, &own, sizeof(own));
    return UCS_OK;
}

// Whether UCT says for which interface and peer the endpoint is.
bool names_peer(const uct_ep_params_t& params);

// Hands an endpoint to UCT, which ends it by ep_destroy.
template <class Own>
ucs_status_t hand_over(std::unique_ptr<Own> ep, Iface* iface, uct_ep_h* handle)
{
    const ucs_status_t status = abi::init_ep(ep.get(), iface);
    if (status == UCS_OK) {
        *handle = &ep.release()->super;
    }
    return status;
}

// In ep_destroy.
template <class Own>
void close_ep(uct_ep_h handle)
{
    const std::unique_ptr<Own> ep(reinterpret_cast<Own*>(handle));
    abi::cleanup_ep(ep.get());
}

} // namespace gdr::streams
