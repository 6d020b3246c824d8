// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The layout of one series, LAYOUT_MINOR's, against the UCX tree of that series.
#include "abi/layout_1_19.hpp"

#define LAYOUT_NAME(minor) LAYOUT_NAME_(minor)
#define LAYOUT_NAME_(minor) Layout_1_##minor

using L = gdr::abi::LAYOUT_NAME(LAYOUT_MINOR);

// ---- configuration

SAME_SIZE(L::ConfigParser, ucs_config_parser_t);
SAME_FIELD(L::ConfigParser, read, ucs_config_parser_t, read);
SAME_FIELD(L::ConfigParser, write, ucs_config_parser_t, write);
SAME_FIELD(L::ConfigParser, clone, ucs_config_parser_t, clone);
SAME_FIELD(L::ConfigParser, release, ucs_config_parser_t, release);
SAME_FIELD(L::ConfigParser, help, ucs_config_parser_t, help);
SAME_FIELD(L::ConfigParser, arg, ucs_config_parser_t, arg);
#if LAYOUT_MINOR >= 17
SAME_FIELD(L::ConfigParser, doc, ucs_config_parser_t, doc);
#endif

SAME_SIZE(L::ConfigField, ucs_config_field_t);
SAME_FIELD(L::ConfigField, name, ucs_config_field_t, name);
SAME_FIELD(L::ConfigField, default_value, ucs_config_field_t, dfl_value);
SAME_FIELD(L::ConfigField, doc, ucs_config_field_t, doc);
SAME_FIELD(L::ConfigField, offset, ucs_config_field_t, offset);
SAME_FIELD(L::ConfigField, parser, ucs_config_field_t, parser);

SAME_SIZE(L::ConfigEntry, ucs_config_global_list_entry_t);
SAME_FIELD(L::ConfigEntry, name, ucs_config_global_list_entry_t, name);
SAME_FIELD(L::ConfigEntry, prefix, ucs_config_global_list_entry_t, prefix);
SAME_FIELD(L::ConfigEntry, table, ucs_config_global_list_entry_t, table);
SAME_FIELD(L::ConfigEntry, size, ucs_config_global_list_entry_t, size);
SAME_FIELD(L::ConfigEntry, list, ucs_config_global_list_entry_t, list);
#if LAYOUT_MINOR >= 15
SAME_FIELD(L::ConfigEntry, flags, ucs_config_global_list_entry_t, flags);
#endif

SAME_CALL(L::FillOptions, ucs_config_parser_fill_opts);

// ---- memory domain

#if LAYOUT_MINOR == 13
SAME_SIZE(L::MdAttr, uct_md_attr_t);
SAME_FIELD(L::MdAttr, cap, uct_md_attr_t, cap);
SAME_FIELD(L::MdAttr, cap.max_alloc, uct_md_attr_t, cap.max_alloc);
SAME_FIELD(L::MdAttr, cap.max_reg, uct_md_attr_t, cap.max_reg);
SAME_FIELD(L::MdAttr, cap.flags, uct_md_attr_t, cap.flags);
SAME_FIELD(L::MdAttr, cap.reg_mem_types, uct_md_attr_t, cap.reg_mem_types);
SAME_FIELD(L::MdAttr, cap.detect_mem_types, uct_md_attr_t, cap.detect_mem_types);
SAME_FIELD(L::MdAttr, cap.alloc_mem_types, uct_md_attr_t, cap.alloc_mem_types);
SAME_FIELD(L::MdAttr, cap.access_mem_types, uct_md_attr_t, cap.access_mem_types);
SAME_FIELD(L::MdAttr, reg_cost, uct_md_attr_t, reg_cost);
SAME_FIELD(L::MdAttr, component_name, uct_md_attr_t, component_name);
SAME_FIELD(L::MdAttr, rkey_packed_size, uct_md_attr_t, rkey_packed_size);
SAME_FIELD(L::MdAttr, local_cpus, uct_md_attr_t, local_cpus);
#else
SAME_SIZE(L::MdAttr, uct_md_attr_v2_t);
SAME_FIELD(L::MdAttr, field_mask, uct_md_attr_v2_t, field_mask);
SAME_FIELD(L::MdAttr, max_alloc, uct_md_attr_v2_t, max_alloc);
SAME_FIELD(L::MdAttr, max_reg, uct_md_attr_v2_t, max_reg);
SAME_FIELD(L::MdAttr, flags, uct_md_attr_v2_t, flags);
SAME_FIELD(L::MdAttr, reg_mem_types, uct_md_attr_v2_t, reg_mem_types);
SAME_FIELD(L::MdAttr, cache_mem_types, uct_md_attr_v2_t, cache_mem_types);
SAME_FIELD(L::MdAttr, detect_mem_types, uct_md_attr_v2_t, detect_mem_types);
SAME_FIELD(L::MdAttr, alloc_mem_types, uct_md_attr_v2_t, alloc_mem_types);
SAME_FIELD(L::MdAttr, access_mem_types, uct_md_attr_v2_t, access_mem_types);
SAME_FIELD(L::MdAttr, dmabuf_mem_types, uct_md_attr_v2_t, dmabuf_mem_types);
SAME_FIELD(L::MdAttr, reg_cost, uct_md_attr_v2_t, reg_cost);
SAME_FIELD(L::MdAttr, component_name, uct_md_attr_v2_t, component_name);
SAME_FIELD(L::MdAttr, rkey_packed_size, uct_md_attr_v2_t, rkey_packed_size);
SAME_FIELD(L::MdAttr, local_cpus, uct_md_attr_v2_t, local_cpus);
SAME_FIELD(L::MdAttr, exported_mkey_packed_size, uct_md_attr_v2_t, exported_mkey_packed_size);
SAME_FIELD(L::MdAttr, global_id, uct_md_attr_v2_t, global_id);
#endif
#if LAYOUT_MINOR >= 15
SAME_FIELD(L::MdAttr, reg_nonblock_mem_types, uct_md_attr_v2_t, reg_nonblock_mem_types);
#endif
#if LAYOUT_MINOR >= 16
SAME_FIELD(L::MdAttr, reg_alignment, uct_md_attr_v2_t, reg_alignment);
#endif
#if LAYOUT_MINOR >= 18
SAME_FIELD(L::MdAttr, gva_mem_types, uct_md_attr_v2_t, gva_mem_types);
#endif
#if LAYOUT_MINOR >= 22
SAME_FIELD(L::MdAttr, required_mem_flags, uct_md_attr_v2_t, required_mem_flags);
#endif

#if LAYOUT_MINOR >= 15
SAME_VALUE(L::kMdFlagsInvalidate, UCT_MD_FLAG_INVALIDATE_RMA | UCT_MD_FLAG_INVALIDATE_AMO);
#endif
#if LAYOUT_MINOR >= 19
SAME_VALUE(L::kMdFlagMemtypeCopy, UCT_MD_FLAG_MEMTYPE_COPY);
#endif

#if LAYOUT_MINOR >= 22
using TheirMemAttr = uct_md_mem_attr_v2_t;
SAME_FIELD(L::MemAttr, mem_flags, TheirMemAttr, mem_flags);
#else
using TheirMemAttr = uct_md_mem_attr_t;
#endif
SAME_SIZE(L::MemAttr, TheirMemAttr);
SAME_FIELD(L::MemAttr, field_mask, TheirMemAttr, field_mask);
SAME_FIELD(L::MemAttr, mem_type, TheirMemAttr, mem_type);
SAME_FIELD(L::MemAttr, sys_dev, TheirMemAttr, sys_dev);
SAME_FIELD(L::MemAttr, base_address, TheirMemAttr, base_address);
SAME_FIELD(L::MemAttr, alloc_length, TheirMemAttr, alloc_length);
#if LAYOUT_MINOR >= 22
SAME_FIELD(L::LookedUp, mem_flags, ucs_memory_info_t, mem_flags);
#endif
SAME_SIZE(L::LookedUp, ucs_memory_info_t);
SAME_FIELD(L::LookedUp, type, ucs_memory_info_t, type);
SAME_FIELD(L::LookedUp, sys_dev, ucs_memory_info_t, sys_dev);
SAME_FIELD(L::LookedUp, base_address, ucs_memory_info_t, base_address);
SAME_FIELD(L::LookedUp, alloc_length, ucs_memory_info_t, alloc_length);
#if LAYOUT_MINOR >= 14
SAME_FIELD(L::MemAttr, dmabuf_fd, TheirMemAttr, dmabuf_fd);
SAME_FIELD(L::MemAttr, dmabuf_offset, TheirMemAttr, dmabuf_offset);
SAME_VALUE(L::kMemAttrDmabufFd, UCT_MD_MEM_ATTR_FIELD_DMABUF_FD);
SAME_VALUE(L::kMemAttrDmabufOffset, UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET);
#endif
SAME_VALUE(L::kMemAttrMemType, UCT_MD_MEM_ATTR_FIELD_MEM_TYPE);
SAME_VALUE(L::kMemAttrSysDev, UCT_MD_MEM_ATTR_FIELD_SYS_DEV);
SAME_VALUE(L::kMemAttrBaseAddress, UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS);
SAME_VALUE(L::kMemAttrAllocLength, UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH);
#if LAYOUT_MINOR >= 22
SAME_VALUE(L::kMemAttrMemType, UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE);
SAME_VALUE(L::kMemAttrSysDev, UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV);
SAME_VALUE(L::kMemAttrBaseAddress, UCT_MD_MEM_ATTR_V2_FIELD_BASE_ADDRESS);
SAME_VALUE(L::kMemAttrAllocLength, UCT_MD_MEM_ATTR_V2_FIELD_ALLOC_LENGTH);
SAME_VALUE(L::kMemAttrDmabufFd, UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_FD);
SAME_VALUE(L::kMemAttrDmabufOffset, UCT_MD_MEM_ATTR_V2_FIELD_DMABUF_OFFSET);
#endif

#if LAYOUT_MINOR >= 14
SAME_FIELD(L::RegParams, field_mask, uct_md_mem_reg_params_t, field_mask);
SAME_FIELD(L::RegParams, flags, uct_md_mem_reg_params_t, flags);
SAME_VALUE(L::kRegFlags, UCT_MD_MEM_REG_FIELD_FLAGS);
#endif
SAME_VALUE(L::kMemFlagHideErrors, UCT_MD_MEM_FLAG_HIDE_ERRORS);

SAME_SIZE(L::DeregParams, uct_md_mem_dereg_params_t);
SAME_FIELD(L::DeregParams, field_mask, uct_md_mem_dereg_params_t, field_mask);
SAME_FIELD(L::DeregParams, flags, uct_md_mem_dereg_params_t, flags);
SAME_FIELD(L::DeregParams, memh, uct_md_mem_dereg_params_t, memh);
SAME_FIELD(L::DeregParams, comp, uct_md_mem_dereg_params_t, comp);
SAME_VALUE(L::kDeregMemh, UCT_MD_MEM_DEREG_FIELD_MEMH);
SAME_VALUE(L::kDeregFlags, UCT_MD_MEM_DEREG_FIELD_FLAGS);
SAME_VALUE(L::kDeregCompletion, UCT_MD_MEM_DEREG_FIELD_COMPLETION);
SAME_VALUE(L::kDeregFlagInvalidate, UCT_MD_MEM_DEREG_FLAG_INVALIDATE);

SAME_SIZE(L::MdOps, uct_md_ops_t);
SAME_FIELD(L::MdOps, close, uct_md_ops_t, close);
SAME_FIELD(L::MdOps, query, uct_md_ops_t, query);
SAME_FIELD(L::MdOps, mem_alloc, uct_md_ops_t, mem_alloc);
SAME_FIELD(L::MdOps, mem_free, uct_md_ops_t, mem_free);
SAME_FIELD(L::MdOps, mem_advise, uct_md_ops_t, mem_advise);
SAME_FIELD(L::MdOps, mem_reg, uct_md_ops_t, mem_reg);
SAME_FIELD(L::MdOps, mem_dereg, uct_md_ops_t, mem_dereg);
SAME_FIELD(L::MdOps, mem_query, uct_md_ops_t, mem_query);
SAME_FIELD(L::MdOps, mkey_pack, uct_md_ops_t, mkey_pack);
SAME_FIELD(L::MdOps, detect_memory_type, uct_md_ops_t, detect_memory_type);
#if LAYOUT_MINOR >= 14
SAME_FIELD(L::MdOps, mem_attach, uct_md_ops_t, mem_attach);
#endif
#if LAYOUT_MINOR <= 15
SAME_FIELD(L::MdOps, is_sockaddr_accessible, uct_md_ops_t, is_sockaddr_accessible);
#endif
#if LAYOUT_MINOR >= 21
SAME_FIELD(L::MdOps, mem_elem_pack, uct_md_ops_t, mem_elem_pack);
#endif
#if LAYOUT_MINOR >= 23
SAME_FIELD(L::MdOps, mem_elem_release, uct_md_ops_t, mem_elem_release);
#endif

// ---- component and transport

SAME_SIZE(L::UctComponent, uct_component_t);
SAME_FIELD(L::UctComponent, name, uct_component_t, name);
SAME_FIELD(L::UctComponent, query_md_resources, uct_component_t, query_md_resources);
SAME_FIELD(L::UctComponent, md_open, uct_component_t, md_open);
SAME_FIELD(L::UctComponent, cm_open, uct_component_t, cm_open);
SAME_FIELD(L::UctComponent, rkey_unpack, uct_component_t, rkey_unpack);
SAME_FIELD(L::UctComponent, rkey_ptr, uct_component_t, rkey_ptr);
SAME_FIELD(L::UctComponent, rkey_release, uct_component_t, rkey_release);
SAME_FIELD(L::UctComponent, md_config, uct_component_t, md_config);
SAME_FIELD(L::UctComponent, cm_config, uct_component_t, cm_config);
SAME_FIELD(L::UctComponent, tl_list, uct_component_t, tl_list);
SAME_FIELD(L::UctComponent, list, uct_component_t, list);
SAME_FIELD(L::UctComponent, flags, uct_component_t, flags);
SAME_FIELD(L::UctComponent, md_vfs_init, uct_component_t, md_vfs_init);
#if LAYOUT_MINOR >= 16
SAME_FIELD(L::UctComponent, rkey_compare, uct_component_t, rkey_compare);
#endif

SAME_SIZE(L::Tl, uct_tl_t);
SAME_FIELD(L::Tl, name, uct_tl_t, name);
SAME_FIELD(L::Tl, query_devices, uct_tl_t, query_devices);
SAME_FIELD(L::Tl, iface_open, uct_tl_t, iface_open);
SAME_FIELD(L::Tl, config, uct_tl_t, config);
SAME_FIELD(L::Tl, list, uct_tl_t, list);

// ---- interface

SAME_VALUE(L::kEpOpAmShort, UCT_EP_OP_AM_SHORT);
SAME_VALUE(L::kEpOpAmBcopy, UCT_EP_OP_AM_BCOPY);
SAME_VALUE(L::kEpOpAmZcopy, UCT_EP_OP_AM_ZCOPY);
SAME_VALUE(L::kEpOpPutShort, UCT_EP_OP_PUT_SHORT);
SAME_VALUE(L::kEpOpPutBcopy, UCT_EP_OP_PUT_BCOPY);
SAME_VALUE(L::kEpOpPutZcopy, UCT_EP_OP_PUT_ZCOPY);
SAME_VALUE(L::kEpOpGetShort, UCT_EP_OP_GET_SHORT);
SAME_VALUE(L::kEpOpGetBcopy, UCT_EP_OP_GET_BCOPY);
SAME_VALUE(L::kEpOpGetZcopy, UCT_EP_OP_GET_ZCOPY);
SAME_VALUE(L::kEpOpAtomicPost, UCT_EP_OP_ATOMIC_POST);
SAME_VALUE(L::kEpOpAtomicFetch, UCT_EP_OP_ATOMIC_FETCH);

SAME_SIZE(L::PerfAttr, uct_perf_attr_t);
SAME_FIELD(L::PerfAttr, field_mask, uct_perf_attr_t, field_mask);
SAME_FIELD(L::PerfAttr, operation, uct_perf_attr_t, operation);
SAME_FIELD(L::PerfAttr, local_memory_type, uct_perf_attr_t, local_memory_type);
SAME_FIELD(L::PerfAttr, remote_memory_type, uct_perf_attr_t, remote_memory_type);
SAME_FIELD(L::PerfAttr, local_sys_device, uct_perf_attr_t, local_sys_device);
SAME_FIELD(L::PerfAttr, remote_sys_device, uct_perf_attr_t, remote_sys_device);
SAME_FIELD(L::PerfAttr, send_pre_overhead, uct_perf_attr_t, send_pre_overhead);
SAME_FIELD(L::PerfAttr, send_post_overhead, uct_perf_attr_t, send_post_overhead);
SAME_FIELD(L::PerfAttr, recv_overhead, uct_perf_attr_t, recv_overhead);
SAME_FIELD(L::PerfAttr, bandwidth, uct_perf_attr_t, bandwidth);
SAME_FIELD(L::PerfAttr, latency, uct_perf_attr_t, latency);
SAME_FIELD(L::PerfAttr, max_inflight_eps, uct_perf_attr_t, max_inflight_eps);
#if LAYOUT_MINOR >= 17
SAME_FIELD(L::PerfAttr, flags, uct_perf_attr_t, flags);
SAME_VALUE(L::kPerfAttrFlags, UCT_PERF_ATTR_FIELD_FLAGS);
#endif
#if LAYOUT_MINOR >= 19
SAME_FIELD(L::PerfAttr, path_bandwidth, uct_perf_attr_t, path_bandwidth);
SAME_VALUE(L::kPerfAttrPathBandwidth, UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH);
#endif
SAME_VALUE(L::kPerfAttrOperation, UCT_PERF_ATTR_FIELD_OPERATION);
SAME_VALUE(L::kPerfAttrLocalMemoryType, UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE);
SAME_VALUE(L::kPerfAttrRemoteMemoryType, UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE);
SAME_VALUE(L::kPerfAttrLocalSysDevice, UCT_PERF_ATTR_FIELD_LOCAL_SYS_DEVICE);
SAME_VALUE(L::kPerfAttrRemoteSysDevice, UCT_PERF_ATTR_FIELD_REMOTE_SYS_DEVICE);
SAME_VALUE(L::kPerfAttrSendPreOverhead, UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD);
SAME_VALUE(L::kPerfAttrSendPostOverhead, UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD);
SAME_VALUE(L::kPerfAttrRecvOverhead, UCT_PERF_ATTR_FIELD_RECV_OVERHEAD);
SAME_VALUE(L::kPerfAttrBandwidth, UCT_PERF_ATTR_FIELD_BANDWIDTH);
SAME_VALUE(L::kPerfAttrLatency, UCT_PERF_ATTR_FIELD_LATENCY);
SAME_VALUE(L::kPerfAttrMaxInflightEps, UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS);

#if LAYOUT_MINOR >= 15
SAME_FIELD(L::ReachableParams, field_mask, uct_iface_is_reachable_params_t, field_mask);
SAME_FIELD(L::ReachableParams, device_addr, uct_iface_is_reachable_params_t, device_addr);
SAME_FIELD(L::ReachableParams, iface_addr, uct_iface_is_reachable_params_t, iface_addr);
SAME_FIELD(L::ReachableParams, info_string, uct_iface_is_reachable_params_t, info_string);
SAME_FIELD(L::ReachableParams, info_string_length, uct_iface_is_reachable_params_t,
           info_string_length);
SAME_FIELD(L::ReachableParams, scope, uct_iface_is_reachable_params_t, scope);
SAME_VALUE(L::kReachableDeviceAddr, UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR);
SAME_VALUE(L::kReachableIfaceAddr, UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR);
SAME_VALUE(L::kReachableInfoString, UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING);
SAME_VALUE(L::kReachableInfoStringLength, UCT_IFACE_IS_REACHABLE_FIELD_INFO_STRING_LENGTH);
SAME_VALUE(L::kReachableScope, UCT_IFACE_IS_REACHABLE_FIELD_SCOPE);
SAME_VALUE(L::kReachableScopeDevice, UCT_IFACE_REACHABILITY_SCOPE_DEVICE);
#endif
#if LAYOUT_MINOR >= 16
SAME_FIELD(L::ConnectedParams, field_mask, uct_ep_is_connected_params_t, field_mask);
SAME_FIELD(L::ConnectedParams, device_addr, uct_ep_is_connected_params_t, device_addr);
SAME_FIELD(L::ConnectedParams, iface_addr, uct_ep_is_connected_params_t, iface_addr);
SAME_VALUE(L::kConnectedDeviceAddr, UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR);
SAME_VALUE(L::kConnectedIfaceAddr, UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR);
#endif
#if LAYOUT_MINOR == 20
SAME_FIELD(L::IfaceAttrV2, field_mask, uct_iface_attr_v2_t, field_mask);
SAME_FIELD(L::IfaceAttrV2, device_mem_element_size, uct_iface_attr_v2_t, device_mem_element_size);
SAME_VALUE(L::kIfaceAttrV2ElementSize, UCT_IFACE_ATTR_FIELD_DEVICE_MEM_ELEMENT_SIZE);
#endif
#if LAYOUT_MINOR >= 22
SAME_FIELD(L::IfaceAttrV2, field_mask, uct_iface_attr_v2_t, field_mask);
SAME_FIELD(L::IfaceAttrV2, max_put_sgl_zcopy_count, uct_iface_attr_v2_t, max_put_sgl_zcopy_count);
SAME_FIELD(L::IfaceAttrV2, cap_flags, uct_iface_attr_v2_t, cap.flags);
SAME_VALUE(L::kIfaceAttrV2MaxPut, UCT_IFACE_ATTR_FIELD_MAX_PUT_SGL_ZCOPY_COUNT);
SAME_VALUE(L::kIfaceAttrV2Cap, UCT_IFACE_ATTR_FIELD_CAP_FLAGS);
#endif
#if LAYOUT_MINOR >= 23
SAME_FIELD(L::IfaceAttrV2, max_get_sgl_zcopy_count, uct_iface_attr_v2_t, max_get_sgl_zcopy_count);
SAME_VALUE(L::kIfaceAttrV2MaxGet, UCT_IFACE_ATTR_FIELD_MAX_GET_SGL_ZCOPY_COUNT);
#endif

SAME_SIZE(L::InternalOpsTable, uct_iface_internal_ops_t);
SAME_FIELD(L::InternalOpsTable, estimate_perf, uct_iface_internal_ops_t, iface_estimate_perf);
SAME_FIELD(L::InternalOpsTable, vfs_refresh, uct_iface_internal_ops_t, iface_vfs_refresh);
SAME_FIELD(L::InternalOpsTable, ep_query, uct_iface_internal_ops_t, ep_query);
SAME_FIELD_AT(L::InternalOpsTable, ep_invalidate, uct_iface_internal_ops_t, ep_invalidate,
              layout::kPerturb);
#if LAYOUT_MINOR >= 14
SAME_FIELD(L::InternalOpsTable, ep_connect_to_ep_v2, uct_iface_internal_ops_t, ep_connect_to_ep_v2);
#endif
#if LAYOUT_MINOR >= 15
SAME_FIELD(L::InternalOpsTable, iface_is_reachable_v2, uct_iface_internal_ops_t,
           iface_is_reachable_v2);
#endif
#if LAYOUT_MINOR >= 16
SAME_FIELD(L::InternalOpsTable, ep_is_connected, uct_iface_internal_ops_t, ep_is_connected);
#endif
#if LAYOUT_MINOR >= 20
SAME_FIELD(L::InternalOpsTable, ep_get_device_ep, uct_iface_internal_ops_t, ep_get_device_ep);
#endif
#if LAYOUT_MINOR == 20
SAME_FIELD(L::InternalOpsTable, iface_mem_element_pack, uct_iface_internal_ops_t,
           iface_mem_element_pack);
#endif
#if LAYOUT_MINOR == 20 || LAYOUT_MINOR >= 22
SAME_FIELD(L::InternalOpsTable, iface_query_v2, uct_iface_internal_ops_t, iface_query_v2);
#endif
#if LAYOUT_MINOR >= 22
SAME_FIELD(L::InternalOpsTable, ep_put_sgl_zcopy, uct_iface_internal_ops_t, ep_put_sgl_zcopy);
#endif
#if LAYOUT_MINOR >= 23
SAME_FIELD(L::InternalOpsTable, ep_get_sgl_zcopy, uct_iface_internal_ops_t, ep_get_sgl_zcopy);
SAME_FIELD(L::InternalOpsTable, ep_outstanding_purge, uct_iface_internal_ops_t,
           ep_outstanding_purge);
#endif

// ---- ucx_perftest

SAME_VALUE(L::kPerfContextRteGroup, offsetof(ucx_perf_context_t, params.rte_group));
SAME_VALUE(L::kPerfContextRte, offsetof(ucx_perf_context_t, params.rte));
#if UCS_ENABLE_ASSERT
SAME_VALUE(L::kPerfContextComponentAssert, offsetof(ucx_perf_context_t, uct.cmpt));
#else
SAME_VALUE(L::kPerfContextComponent, offsetof(ucx_perf_context_t, uct.cmpt));
#endif
SAME_VALUE(offsetof(ucx_perf_context_t, uct.cmpt) + sizeof(void*),
           offsetof(ucx_perf_context_t, uct.md));
SAME_VALUE(L::kPerfRteGroupIndex, offsetof(ucx_perf_rte_t, group_index));
