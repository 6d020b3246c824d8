// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The declarations of series_1_13.hpp against UCX 1.13.
#include "abi/series_1_13.hpp"

using namespace gdr::abi::ucx_1_13;

// ---- configuration

SAME_SIZE(ConfigParser, ucs_config_parser_t);
SAME_FIELD(ConfigParser, read, ucs_config_parser_t, read);
SAME_FIELD(ConfigParser, write, ucs_config_parser_t, write);
SAME_FIELD(ConfigParser, clone, ucs_config_parser_t, clone);
SAME_FIELD(ConfigParser, release, ucs_config_parser_t, release);
SAME_FIELD(ConfigParser, help, ucs_config_parser_t, help);
SAME_FIELD(ConfigParser, arg, ucs_config_parser_t, arg);

SAME_SIZE(ConfigField, ucs_config_field_t);
SAME_FIELD(ConfigField, name, ucs_config_field_t, name);
SAME_FIELD(ConfigField, default_value, ucs_config_field_t, dfl_value);
SAME_FIELD(ConfigField, doc, ucs_config_field_t, doc);
SAME_FIELD(ConfigField, offset, ucs_config_field_t, offset);
SAME_FIELD(ConfigField, parser, ucs_config_field_t, parser);

SAME_SIZE(ConfigEntry, ucs_config_global_list_entry_t);
SAME_FIELD(ConfigEntry, name, ucs_config_global_list_entry_t, name);
SAME_FIELD(ConfigEntry, prefix, ucs_config_global_list_entry_t, prefix);
SAME_FIELD(ConfigEntry, table, ucs_config_global_list_entry_t, table);
SAME_FIELD(ConfigEntry, size, ucs_config_global_list_entry_t, size);
SAME_FIELD(ConfigEntry, list, ucs_config_global_list_entry_t, list);

// ---- memory domain

SAME_SIZE(MdAttr, uct_md_attr_t);
SAME_FIELD(MdAttr, cap, uct_md_attr_t, cap);
SAME_FIELD(MdAttr, cap.max_alloc, uct_md_attr_t, cap.max_alloc);
SAME_FIELD(MdAttr, cap.max_reg, uct_md_attr_t, cap.max_reg);
SAME_FIELD(MdAttr, cap.flags, uct_md_attr_t, cap.flags);
SAME_FIELD(MdAttr, cap.reg_mem_types, uct_md_attr_t, cap.reg_mem_types);
SAME_FIELD(MdAttr, cap.detect_mem_types, uct_md_attr_t, cap.detect_mem_types);
SAME_FIELD(MdAttr, cap.alloc_mem_types, uct_md_attr_t, cap.alloc_mem_types);
SAME_FIELD(MdAttr, cap.access_mem_types, uct_md_attr_t, cap.access_mem_types);
SAME_FIELD(MdAttr, reg_cost, uct_md_attr_t, reg_cost);
SAME_FIELD(MdAttr, component_name, uct_md_attr_t, component_name);
SAME_FIELD(MdAttr, rkey_packed_size, uct_md_attr_t, rkey_packed_size);
SAME_FIELD(MdAttr, local_cpus, uct_md_attr_t, local_cpus);

SAME_SIZE(MemAttr, uct_md_mem_attr_t);
SAME_FIELD(MemAttr, field_mask, uct_md_mem_attr_t, field_mask);
SAME_FIELD(MemAttr, mem_type, uct_md_mem_attr_t, mem_type);
SAME_FIELD(MemAttr, sys_dev, uct_md_mem_attr_t, sys_dev);
SAME_FIELD(MemAttr, base_address, uct_md_mem_attr_t, base_address);
SAME_FIELD(MemAttr, alloc_length, uct_md_mem_attr_t, alloc_length);
SAME_VALUE(kMemAttrMemType, UCT_MD_MEM_ATTR_FIELD_MEM_TYPE);
SAME_VALUE(kMemAttrSysDev, UCT_MD_MEM_ATTR_FIELD_SYS_DEV);
SAME_VALUE(kMemAttrBaseAddress, UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS);
SAME_VALUE(kMemAttrAllocLength, UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH);

SAME_SIZE(DeregParams, uct_md_mem_dereg_params_t);
SAME_FIELD(DeregParams, field_mask, uct_md_mem_dereg_params_t, field_mask);
SAME_FIELD(DeregParams, flags, uct_md_mem_dereg_params_t, flags);
SAME_FIELD(DeregParams, memh, uct_md_mem_dereg_params_t, memh);
SAME_FIELD(DeregParams, comp, uct_md_mem_dereg_params_t, comp);
SAME_VALUE(kDeregMemh, UCT_MD_MEM_DEREG_FIELD_MEMH);
SAME_VALUE(kDeregFlags, UCT_MD_MEM_DEREG_FIELD_FLAGS);
SAME_VALUE(kDeregCompletion, UCT_MD_MEM_DEREG_FIELD_COMPLETION);
SAME_VALUE(kDeregFlagInvalidate, UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
SAME_VALUE(kMemFlagHideErrors, UCT_MD_MEM_FLAG_HIDE_ERRORS);

SAME_SIZE(MkeyPackParams, uct_md_mkey_pack_params_t);
SAME_FIELD(MkeyPackParams, field_mask, uct_md_mkey_pack_params_t, field_mask);
SAME_FIELD(MkeyPackParams, flags, uct_md_mkey_pack_params_t, flags);

SAME_SIZE(MdOps, uct_md_ops_t);
SAME_FIELD(MdOps, close, uct_md_ops_t, close);
SAME_FIELD(MdOps, query, uct_md_ops_t, query);
SAME_FIELD(MdOps, mem_alloc, uct_md_ops_t, mem_alloc);
SAME_FIELD(MdOps, mem_free, uct_md_ops_t, mem_free);
SAME_FIELD(MdOps, mem_advise, uct_md_ops_t, mem_advise);
SAME_FIELD(MdOps, mem_reg, uct_md_ops_t, mem_reg);
SAME_FIELD(MdOps, mem_dereg, uct_md_ops_t, mem_dereg);
SAME_FIELD(MdOps, mem_query, uct_md_ops_t, mem_query);
SAME_FIELD(MdOps, mkey_pack, uct_md_ops_t, mkey_pack);
SAME_FIELD(MdOps, is_sockaddr_accessible, uct_md_ops_t, is_sockaddr_accessible);
SAME_FIELD(MdOps, detect_memory_type, uct_md_ops_t, detect_memory_type);

// ---- component and transport

SAME_SIZE(UctComponent, uct_component_t);
SAME_FIELD(UctComponent, name, uct_component_t, name);
SAME_FIELD(UctComponent, query_md_resources, uct_component_t, query_md_resources);
SAME_FIELD(UctComponent, md_open, uct_component_t, md_open);
SAME_FIELD(UctComponent, cm_open, uct_component_t, cm_open);
SAME_FIELD(UctComponent, rkey_unpack, uct_component_t, rkey_unpack);
SAME_FIELD(UctComponent, rkey_ptr, uct_component_t, rkey_ptr);
SAME_FIELD(UctComponent, rkey_release, uct_component_t, rkey_release);
SAME_FIELD(UctComponent, md_config, uct_component_t, md_config);
SAME_FIELD(UctComponent, cm_config, uct_component_t, cm_config);
SAME_FIELD(UctComponent, tl_list, uct_component_t, tl_list);
SAME_FIELD(UctComponent, list, uct_component_t, list);
SAME_FIELD(UctComponent, flags, uct_component_t, flags);
SAME_FIELD(UctComponent, md_vfs_init, uct_component_t, md_vfs_init);

SAME_SIZE(Tl, uct_tl_t);
SAME_FIELD(Tl, name, uct_tl_t, name);
SAME_FIELD(Tl, query_devices, uct_tl_t, query_devices);
SAME_FIELD(Tl, iface_open, uct_tl_t, iface_open);
SAME_FIELD(Tl, config, uct_tl_t, config);
SAME_FIELD(Tl, list, uct_tl_t, list);

// ---- interface

SAME_VALUE(kEpOpAmShort, UCT_EP_OP_AM_SHORT);
SAME_VALUE(kEpOpAmBcopy, UCT_EP_OP_AM_BCOPY);
SAME_VALUE(kEpOpAmZcopy, UCT_EP_OP_AM_ZCOPY);
SAME_VALUE(kEpOpPutShort, UCT_EP_OP_PUT_SHORT);
SAME_VALUE(kEpOpPutBcopy, UCT_EP_OP_PUT_BCOPY);
SAME_VALUE(kEpOpPutZcopy, UCT_EP_OP_PUT_ZCOPY);
SAME_VALUE(kEpOpGetShort, UCT_EP_OP_GET_SHORT);
SAME_VALUE(kEpOpGetBcopy, UCT_EP_OP_GET_BCOPY);
SAME_VALUE(kEpOpGetZcopy, UCT_EP_OP_GET_ZCOPY);
SAME_VALUE(kEpOpAtomicPost, UCT_EP_OP_ATOMIC_POST);
SAME_VALUE(kEpOpAtomicFetch, UCT_EP_OP_ATOMIC_FETCH);

SAME_SIZE(PerfAttr, uct_perf_attr_t);
SAME_FIELD(PerfAttr, field_mask, uct_perf_attr_t, field_mask);
SAME_FIELD(PerfAttr, operation, uct_perf_attr_t, operation);
SAME_FIELD(PerfAttr, local_memory_type, uct_perf_attr_t, local_memory_type);
SAME_FIELD(PerfAttr, remote_memory_type, uct_perf_attr_t, remote_memory_type);
SAME_FIELD(PerfAttr, local_sys_device, uct_perf_attr_t, local_sys_device);
SAME_FIELD(PerfAttr, remote_sys_device, uct_perf_attr_t, remote_sys_device);
SAME_FIELD(PerfAttr, send_pre_overhead, uct_perf_attr_t, send_pre_overhead);
SAME_FIELD(PerfAttr, send_post_overhead, uct_perf_attr_t, send_post_overhead);
SAME_FIELD(PerfAttr, recv_overhead, uct_perf_attr_t, recv_overhead);
SAME_FIELD(PerfAttr, bandwidth, uct_perf_attr_t, bandwidth);
SAME_FIELD(PerfAttr, latency, uct_perf_attr_t, latency);
SAME_FIELD(PerfAttr, max_inflight_eps, uct_perf_attr_t, max_inflight_eps);
SAME_VALUE(kPerfAttrOperation, UCT_PERF_ATTR_FIELD_OPERATION);
SAME_VALUE(kPerfAttrLocalMemoryType, UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE);
SAME_VALUE(kPerfAttrRemoteMemoryType, UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE);
SAME_VALUE(kPerfAttrLocalSysDevice, UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE);
SAME_VALUE(kPerfAttrRemoteSysDevice, UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE);
SAME_VALUE(kPerfAttrSendPreOverhead, UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD);
SAME_VALUE(kPerfAttrSendPostOverhead, UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD);
SAME_VALUE(kPerfAttrRecvOverhead, UCT_PERF_ATTR_FIELD_RECV_OVERHEAD);
SAME_VALUE(kPerfAttrBandwidth, UCT_PERF_ATTR_FIELD_BANDWIDTH);
SAME_VALUE(kPerfAttrLatency, UCT_PERF_ATTR_FIELD_LATENCY);
SAME_VALUE(kPerfAttrMaxInflightEps, UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS);

SAME_SIZE(InternalOpsTable, uct_iface_internal_ops_t);
SAME_FIELD(InternalOpsTable, estimate_perf, uct_iface_internal_ops_t, iface_estimate_perf);
SAME_FIELD(InternalOpsTable, vfs_refresh, uct_iface_internal_ops_t, iface_vfs_refresh);
SAME_FIELD(InternalOpsTable, ep_query, uct_iface_internal_ops_t, ep_query);
SAME_FIELD(InternalOpsTable, ep_invalidate, uct_iface_internal_ops_t, ep_invalidate);

// ---- ucx_perftest

SAME_VALUE(kPerfContextRteGroup, offsetof(ucx_perf_context_t, params.rte_group));
SAME_VALUE(kPerfContextRte, offsetof(ucx_perf_context_t, params.rte));
#if UCS_ENABLE_ASSERT
SAME_VALUE(kPerfContextComponentAssert, offsetof(ucx_perf_context_t, uct.cmpt));
#else
SAME_VALUE(kPerfContextComponent, offsetof(ucx_perf_context_t, uct.cmpt));
#endif
SAME_VALUE(offsetof(ucx_perf_context_t, uct.cmpt) + sizeof(void*),
           offsetof(ucx_perf_context_t, uct.md));
SAME_VALUE(kPerfRteGroupIndex, offsetof(ucx_perf_rte_t, group_index));
