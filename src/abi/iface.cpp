// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The base parts of interfaces and endpoints, initialised by UCT's own classes.
#include "abi/iface.hpp"

#include "abi/series.hpp"
#include "abi/uct_calls.hpp"
#include "abi/ucx.hpp"

extern "C" {
#include <ucs/debug/log_def.h>

gdr::abi::BaseIfaceInit uct_base_iface_t_init;
gdr::abi::BaseEpInit uct_base_ep_t_init;
gdr::abi::BaseIfaceQuery uct_base_iface_query;
gdr::abi::HandleEpErr uct_iface_handle_ep_err;
}

namespace gdr::abi {
namespace {

// UCX's UCS_CLASS_INIT, which counts how many of the nested classes have been initialised.
template <class... Args>
ucs_status_t init_class(ucs_class_t& type, void* self,
                        ucs_status_t (*init)(void*, ucs_class_t*, int*, Args...),
                        std::type_identity_t<Args>... args)
{
    int initialised = 1;
    const ucs_status_t status = init(self, &type, &initialised, args...);
    if (status != UCS_OK) {
        ucs_class_call_cleanup_chain(&type, self, initialised);
    }
    return status;
}

// An unhandled error ends the process, as with UCX's own transports: the peers would wait for it
// forever.
ucs_log_level_t failure_log_level(const Iface& iface, ucs_status_t handled, ucs_status_t status)
{
    if (handled != UCS_OK) {
        return UCS_LOG_LEVEL_FATAL;
    }
    if (status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET) {
        return static_cast<ucs_log_level_t>(iface.config.failure_level);
    }
    return UCS_LOG_LEVEL_ERROR;
}

} // namespace

ucs_status_t init_iface(Iface* iface, uct_iface_ops_t* ops, const InternalOps* internal,
                        uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config)
{
    iface->internal = internal;
    return init_class(*ucx().base_iface_class, iface, uct_base_iface_t_init, ops,
                      series().internal_ops, md, worker, params, config);
}

void cleanup_iface(Iface* iface)
{
    ucs_class_call_cleanup_chain(ucx().base_iface_class, iface, -1);
}

ucs_status_t init_ep(Ep* ep, Iface* iface)
{
    return init_class(*ucx().base_ep_class, ep, uct_base_ep_t_init, iface);
}

void cleanup_ep(Ep* ep)
{
    ucs_class_call_cleanup_chain(ucx().base_ep_class, ep, -1);
}

void begin_iface_query(Iface* iface, uct_iface_attr_t* attr)
{
    uct_base_iface_query(iface, attr);
}

ucs_status_t handle_ep_error(Iface* iface, Ep* ep, ucs_status_t status)
{
    const ucs_status_t handled = uct_iface_handle_ep_err(&iface->super, &ep->super, status);
    const ucs_log_level_t level = failure_log_level(*iface, handled, status);
    ucs_log_component_config_t* log = &ucx().global_opts->log_component;
    if (level <= log->log_level) {
        ucs_log_dispatch(__FILE__, __LINE__, __func__, level, log, "gdr: endpoint %p failed: %s%s",
                         static_cast<void*>(ep), ucs_status_string(status),
                         handled == UCS_OK ? "" : " (no error handler has taken it)");
    }
    return handled;
}

} // namespace gdr::abi
