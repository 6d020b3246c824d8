// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Compiled, never run, by layout_check.sh against each UCX source tree: what src/abi declares the
// same for all series, and the layout of the tree's own series (LAYOUT_MINOR, where src/abi has
// one).
#include "layout_check.hpp"

#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>

extern "C" {
#include <tools/perf/lib/libperf_int.h>
#include <ucm/bistro/bistro.h>
#include <ucm/bistro/bistro_int.h>
#include <ucm/event/event.h>
#include <ucs/config/parser.h>
#include <ucs/debug/log.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/memory/rcache.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/time/time.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <uct/base/uct_worker.h>
}

#include "abi/base.hpp"
#include "abi/iface.hpp"
#include "abi/options.hpp"
#include "abi/perftest.hpp"
#include "abi/uct_calls.hpp"

using namespace gdr::abi;

// ---- base.hpp

SAME_SIZE(AmHandler, uct_am_handler_t);
SAME_FIELD(AmHandler, cb, uct_am_handler_t, cb);
SAME_FIELD(AmHandler, arg, uct_am_handler_t, arg);
SAME_FIELD(AmHandler, flags, uct_am_handler_t, flags);

SAME_SIZE(WorkerProgress, uct_worker_progress_t);
SAME_FIELD(WorkerProgress, id, uct_worker_progress_t, id);
SAME_FIELD(WorkerProgress, refcount, uct_worker_progress_t, refcount);

SAME_SIZE(BaseMd, uct_md_t);
SAME_FIELD(BaseMd, ops, uct_md_t, ops);
SAME_FIELD(BaseMd, component, uct_md_t, component);

SAME_SIZE(TlDevice, uct_tl_device_resource_t);
SAME_FIELD(TlDevice, name, uct_tl_device_resource_t, name);
SAME_FIELD(TlDevice, type, uct_tl_device_resource_t, type);
SAME_FIELD(TlDevice, sys_device, uct_tl_device_resource_t, sys_device);

SAME_SIZE(BaseIface, uct_base_iface_t);
SAME_FIELD_AT(BaseIface, super, uct_base_iface_t, super, layout::kPerturb);
SAME_FIELD(BaseIface, internal_ops, uct_base_iface_t, internal_ops);
SAME_FIELD(BaseIface, md, uct_base_iface_t, md);
SAME_FIELD(BaseIface, worker, uct_base_iface_t, worker);
SAME_FIELD(BaseIface, am, uct_base_iface_t, am);
SAME_FIELD(BaseIface, am_tracer, uct_base_iface_t, am_tracer);
SAME_FIELD(BaseIface, am_tracer_arg, uct_base_iface_t, am_tracer_arg);
SAME_FIELD(BaseIface, err_handler, uct_base_iface_t, err_handler);
SAME_FIELD(BaseIface, err_handler_arg, uct_base_iface_t, err_handler_arg);
SAME_FIELD(BaseIface, err_handler_flags, uct_base_iface_t, err_handler_flags);
SAME_FIELD(BaseIface, prog, uct_base_iface_t, prog);
SAME_FIELD(BaseIface, progress_flags, uct_base_iface_t, progress_flags);
SAME_FIELD(BaseIface, config, uct_base_iface_t, config);
SAME_FIELD(BaseIface, config.num_alloc_methods, uct_base_iface_t, config.num_alloc_methods);
SAME_FIELD(BaseIface, config.alloc_methods, uct_base_iface_t, config.alloc_methods);
SAME_FIELD(BaseIface, config.failure_level, uct_base_iface_t, config.failure_level);
SAME_FIELD(BaseIface, config.max_num_eps, uct_base_iface_t, config.max_num_eps);

SAME_SIZE(BaseEp, uct_base_ep_t);
SAME_FIELD(BaseEp, super, uct_base_ep_t, super);

// ---- options.hpp

SAME_SIZE(IfaceConfig, uct_iface_config_t);
SAME_FIELD(IfaceConfig, alloc_methods, uct_iface_config_t, alloc_methods);
SAME_FIELD(IfaceConfig, alloc_methods.methods, uct_iface_config_t, alloc_methods.methods);
SAME_FIELD(IfaceConfig, alloc_methods.count, uct_iface_config_t, alloc_methods.count);
SAME_FIELD(IfaceConfig, failure, uct_iface_config_t, failure);
SAME_FIELD(IfaceConfig, max_num_eps, uct_iface_config_t, max_num_eps);
SAME_SIZE(MdConfig, uct_md_config_t);
SAME_VALUE(kAuto, UCS_ULUNITS_AUTO);
SAME_VALUE(kAutoSize, UCS_MEMUNITS_AUTO);

// ---- perftest.hpp

SAME_SIZE(PerftestAllocator, ucx_perf_allocator_t);
SAME_FIELD(PerftestAllocator, mem_type, ucx_perf_allocator_t, mem_type);
SAME_FIELD(PerftestAllocator, init, ucx_perf_allocator_t, init);
SAME_FIELD(PerftestAllocator, uct_alloc, ucx_perf_allocator_t, uct_alloc);
SAME_FIELD(PerftestAllocator, uct_free, ucx_perf_allocator_t, uct_free);
SAME_FIELD(PerftestAllocator, memcpy, ucx_perf_allocator_t, memcpy);
SAME_FIELD(PerftestAllocator, memset, ucx_perf_allocator_t, memset);
SAME_FIELD(PerftestMemory, address, uct_allocated_memory_t, address);
SAME_FIELD(PerftestMemory, length, uct_allocated_memory_t, length);
SAME_FIELD(PerftestMemory, method, uct_allocated_memory_t, method);
SAME_FIELD(PerftestMemory, mem_type, uct_allocated_memory_t, mem_type);
SAME_FIELD(PerftestMemory, md, uct_allocated_memory_t, md);
SAME_FIELD(PerftestMemory, memh, uct_allocated_memory_t, memh);

// ---- uct_calls.hpp

SAME_CALL(BaseIfaceInit, uct_base_iface_t_init);
SAME_CALL(BaseEpInit, uct_base_ep_t_init);
SAME_CALL(BaseIfaceQuery, uct_base_iface_query);
SAME_CALL(HandleEpErr, uct_iface_handle_ep_err);
SAME_CALL(ComponentRegister, uct_component_register);
SAME_CALL(TlRegister, uct_tl_register);
SAME_CALL(InvalidateRegion, ucs_rcache_region_invalidate);
SAME_CALL(MemoryTypeLookup, ucs_memtype_cache_lookup);
SAME_CALL(MemoryTypeRemove, ucs_memtype_cache_remove);
SAME_CALL(MemoryEventBorder, ucm_event_enter);
SAME_CALL(MemoryEventBorder, ucm_event_leave);
SAME_CALL(MemoryEventDispatch, ucm_event_dispatch);
template <class F>
struct WithFlags {
    using Type = F;
};
template <class... Args>
struct WithFlags<void(Args...)> {
    using Type = std::conditional_t<sizeof...(Args) == 4, void(Args..., uint8_t), void(Args...)>;
};
static_assert(
    layout::same_call<MemoryTypeUpdate, WithFlags<decltype(ucs_memtype_cache_update)>::Type>,
    "parameters of MemoryTypeUpdate and ucs_memtype_cache_update");
SAME_CALL(PatchFunction, ucm_bistro_patch);
SAME_CALL(ApplyPatch, ucm_bistro_apply_patch);
SAME_CALL(IfaceOpen, uct_iface_open);
SAME_CALL(CpuClocksPerSec, ucs_get_cpu_clocks_per_sec);

#ifdef LAYOUT_MINOR
#include "layout_series.hpp"
#endif
