// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/component/open_iface.hpp"

#include "abi/settings.hpp"
#include "log/log.hpp"
#include "rc/component/dummy_iface.hpp"
#include "rc/component/operation_tables.hpp"
#include "rc/iface.hpp"
#include "rc/memory_domain.hpp"
#include "rc/ops/relaxed_writes.hpp"
#include "rc/queues/registered_memory.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <bit>
#include <exception>
#include <memory>
#include <new>

namespace gdr::rc {
namespace {

// What is wrong with the parameters of an interface; NULL if nothing is. The offset may exceed the
// alignment, as UCP's does with small alignments.
const char* unusable(const uct_iface_params_t& params)
{
    bool aligned = params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT;
    if (!(params.open_mode & UCT_IFACE_OPEN_MODE_DEVICE)) {
        return "an RC interface is opened on a device only";
    }
    if (aligned && !std::has_single_bit(params.am_alignment)) {
        return "am_alignment is no power of two";
    }
    if (!aligned && (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET)) {
        return "am_align_offset without am_alignment";
    }
    return nullptr;
}

ucs_status_t not_opened(const char* port, const std::exception& error)
{
    gdr_log(error, "no RC interface could be opened on %s: %s", port, cause_of(error).c_str());
    return UCS_ERR_IO_ERROR;
}

} // namespace

// If UCX cannot open an interface on a port that it was told about, it gives up the whole worker.
// It is not told about ports that fail try_queues(). Any other failure costs the worker only this
// HCA, unless a setting of the user is the cause.
ucs_status_t iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* config, uct_iface_h* iface)
{
    if (const char* reason = unusable(*params)) {
        gdr_log(error, "no RC interface could be opened: %s", reason);
        return UCS_ERR_INVALID_PARAM;
    }
    auto& domain = static_cast<MemoryDomain&>(*abi::memory_domain(md));
    const char* const port = params->mode.device.dev_name;
    try {
        const MemoryRules rules(domain);
        auto opened =
            std::make_unique<Iface>(md, worker, params, *reinterpret_cast<const Settings*>(config),
                                    rules, operations_for(rules));
        if (verbs::has_relaxed_ordering_alone(domain.pd())) {
            read_before_writes(*opened);
        }
        *iface = &opened.release()->super;
        return UCS_OK;
    } catch (const std::bad_alloc&) {
        gdr_log(error, "no RC interface could be opened on %s: out of memory", port);
        return UCS_ERR_NO_MEMORY;
    } catch (const UnmetSetting& error) {
        return not_opened(port, error);
    } catch (const std::exception& error) {
        if (!domain.has_offered) {
            return not_opened(port, error);
        }
        log::message(abi::user_names_gdr() ? log::Level::warn : log::Level::diag, __FILE__,
                     __LINE__, "a worker has to do without %s: %s", port, cause_of(error).c_str());
        return open_dummy_iface(md, worker, params, config, iface);
    }
}

} // namespace gdr::rc
