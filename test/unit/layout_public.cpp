// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the transports take from UCX's public headers, one line for each offset and value.
// layout_check.sh compiles it with the headers of the build and with those of a UCX source tree,
// whose output must be the same: the binary runs with every series, whichever headers it was built
// with.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <typeinfo>

extern "C" {
#include <ucm/api/ucm.h>
#include <ucs/async/async_fwd.h>
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
#include <ucs/config/types.h>
#include <ucs/datastruct/list.h>
#include <ucs/debug/log_def.h>
#include <ucs/sys/event_set.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/type/class.h>
#include <uct/api/uct.h>
}

#define SIZE(type) std::printf("sizeof(%s) %zu\n", #type, sizeof(type))
#define FIELD(type, field)                                                                         \
    std::printf("%s.%s %zu+%zu\n", #type, #field, offsetof(type, field),                           \
                sizeof(((type*)nullptr)->field))
#define CALL(function) std::printf("%s %s\n", #function, typeid(function).name())
#define VALUE(value) std::printf("%s %lld\n", #value, static_cast<long long>(value))

int main()
{
    // Interface operations: the whole table.
    SIZE(uct_iface_ops_t);
    FIELD(uct_iface_ops_t, ep_put_short);
    FIELD(uct_iface_ops_t, ep_put_bcopy);
    FIELD(uct_iface_ops_t, ep_put_zcopy);
    FIELD(uct_iface_ops_t, ep_get_short);
    FIELD(uct_iface_ops_t, ep_get_bcopy);
    FIELD(uct_iface_ops_t, ep_get_zcopy);
    FIELD(uct_iface_ops_t, ep_am_short);
    FIELD(uct_iface_ops_t, ep_am_short_iov);
    FIELD(uct_iface_ops_t, ep_am_bcopy);
    FIELD(uct_iface_ops_t, ep_am_zcopy);
    FIELD(uct_iface_ops_t, ep_atomic_cswap64);
    FIELD(uct_iface_ops_t, ep_atomic_cswap32);
    FIELD(uct_iface_ops_t, ep_atomic32_post);
    FIELD(uct_iface_ops_t, ep_atomic64_post);
    FIELD(uct_iface_ops_t, ep_atomic32_fetch);
    FIELD(uct_iface_ops_t, ep_atomic64_fetch);
    FIELD(uct_iface_ops_t, ep_tag_eager_short);
    FIELD(uct_iface_ops_t, iface_tag_recv_cancel);
    FIELD(uct_iface_ops_t, ep_pending_add);
    FIELD(uct_iface_ops_t, ep_pending_purge);
    FIELD(uct_iface_ops_t, ep_flush);
    FIELD(uct_iface_ops_t, ep_fence);
    FIELD(uct_iface_ops_t, ep_check);
    FIELD(uct_iface_ops_t, ep_create);
    FIELD(uct_iface_ops_t, ep_connect);
    FIELD(uct_iface_ops_t, ep_disconnect);
    FIELD(uct_iface_ops_t, cm_ep_conn_notify);
    FIELD(uct_iface_ops_t, ep_destroy);
    FIELD(uct_iface_ops_t, ep_get_address);
    FIELD(uct_iface_ops_t, ep_connect_to_ep);
    FIELD(uct_iface_ops_t, iface_accept);
    FIELD(uct_iface_ops_t, iface_reject);
    FIELD(uct_iface_ops_t, iface_flush);
    FIELD(uct_iface_ops_t, iface_fence);
    FIELD(uct_iface_ops_t, iface_progress_enable);
    FIELD(uct_iface_ops_t, iface_progress_disable);
    FIELD(uct_iface_ops_t, iface_progress);
    FIELD(uct_iface_ops_t, iface_event_fd_get);
    FIELD(uct_iface_ops_t, iface_event_arm);
    FIELD(uct_iface_ops_t, iface_close);
    FIELD(uct_iface_ops_t, iface_query);
    FIELD(uct_iface_ops_t, iface_get_device_address);
    FIELD(uct_iface_ops_t, iface_get_address);
    FIELD(uct_iface_ops_t, iface_is_reachable);

    // Interface attributes: later series append to them.
    FIELD(uct_iface_attr_t, cap.put.max_short);
    FIELD(uct_iface_attr_t, cap.put.max_bcopy);
    FIELD(uct_iface_attr_t, cap.put.min_zcopy);
    FIELD(uct_iface_attr_t, cap.put.max_zcopy);
    FIELD(uct_iface_attr_t, cap.put.opt_zcopy_align);
    FIELD(uct_iface_attr_t, cap.put.align_mtu);
    FIELD(uct_iface_attr_t, cap.put.max_iov);
    FIELD(uct_iface_attr_t, cap.get.max_short);
    FIELD(uct_iface_attr_t, cap.get.max_bcopy);
    FIELD(uct_iface_attr_t, cap.get.min_zcopy);
    FIELD(uct_iface_attr_t, cap.get.max_zcopy);
    FIELD(uct_iface_attr_t, cap.get.opt_zcopy_align);
    FIELD(uct_iface_attr_t, cap.get.align_mtu);
    FIELD(uct_iface_attr_t, cap.get.max_iov);
    FIELD(uct_iface_attr_t, cap.am.max_short);
    FIELD(uct_iface_attr_t, cap.am.max_bcopy);
    FIELD(uct_iface_attr_t, cap.am.min_zcopy);
    FIELD(uct_iface_attr_t, cap.am.max_zcopy);
    FIELD(uct_iface_attr_t, cap.am.opt_zcopy_align);
    FIELD(uct_iface_attr_t, cap.am.align_mtu);
    FIELD(uct_iface_attr_t, cap.am.max_hdr);
    FIELD(uct_iface_attr_t, cap.am.max_iov);
    FIELD(uct_iface_attr_t, cap.atomic32.op_flags);
    FIELD(uct_iface_attr_t, cap.atomic32.fop_flags);
    FIELD(uct_iface_attr_t, cap.atomic64.op_flags);
    FIELD(uct_iface_attr_t, cap.atomic64.fop_flags);
    FIELD(uct_iface_attr_t, cap.flags);
    FIELD(uct_iface_attr_t, cap.event_flags);
    FIELD(uct_iface_attr_t, device_addr_len);
    FIELD(uct_iface_attr_t, iface_addr_len);
    FIELD(uct_iface_attr_t, ep_addr_len);
    FIELD(uct_iface_attr_t, max_conn_priv);
    FIELD(uct_iface_attr_t, overhead);
    FIELD(uct_iface_attr_t, bandwidth);
    FIELD(uct_iface_attr_t, latency);
    FIELD(uct_iface_attr_t, priority);
    FIELD(uct_iface_attr_t, max_num_eps);
    FIELD(uct_iface_attr_t, dev_num_paths);
    FIELD(uct_ppn_bandwidth_t, dedicated);
    FIELD(uct_ppn_bandwidth_t, shared);
    FIELD(ucs_linear_func_t, c);
    FIELD(ucs_linear_func_t, m);

    // Parameters we read.
    FIELD(uct_iface_params_t, field_mask);
    FIELD(uct_iface_params_t, cpu_mask);
    FIELD(uct_iface_params_t, open_mode);
    FIELD(uct_iface_params_t, mode.device.tl_name);
    FIELD(uct_iface_params_t, mode.device.dev_name);
    FIELD(uct_iface_params_t, stats_root);
    FIELD(uct_iface_params_t, rx_headroom);
    FIELD(uct_iface_params_t, err_handler_arg);
    FIELD(uct_iface_params_t, err_handler);
    FIELD(uct_iface_params_t, err_handler_flags);
    FIELD(uct_iface_params_t, async_event_arg);
    FIELD(uct_iface_params_t, async_event_cb);
    FIELD(uct_iface_params_t, keepalive_interval);
    FIELD(uct_iface_params_t, am_alignment);
    FIELD(uct_iface_params_t, am_align_offset);
    FIELD(uct_iface_params_t, features);
    FIELD(uct_ep_params_t, field_mask);
    FIELD(uct_ep_params_t, iface);
    FIELD(uct_ep_params_t, user_data);
    FIELD(uct_ep_params_t, dev_addr);
    FIELD(uct_ep_params_t, iface_addr);
    FIELD(uct_ep_params_t, path_index);

    SIZE(uct_iov_t);
    FIELD(uct_iov_t, buffer);
    FIELD(uct_iov_t, length);
    FIELD(uct_iov_t, memh);
    FIELD(uct_iov_t, stride);
    FIELD(uct_iov_t, count);
    SIZE(uct_completion_t);
    FIELD(uct_completion_t, func);
    FIELD(uct_completion_t, count);
    FIELD(uct_completion_t, status);
    SIZE(uct_pending_req_t);
    FIELD(uct_pending_req_t, func);
    FIELD(uct_pending_req_t, priv);
    SIZE(uct_iface_t);
    SIZE(uct_ep_t);
    FIELD(uct_ep_t, iface);
    SIZE(uct_md_resource_desc_t);
    FIELD(uct_md_resource_desc_t, md_name);
    SIZE(ucs_cpu_set_t);
    SIZE(ucs_list_link_t);
    FIELD(ucs_list_link_t, prev);
    FIELD(ucs_list_link_t, next);
    SIZE(ucs_class_t);
    FIELD(ucs_class_t, size);
    SIZE(ucs_sys_bus_id_t);
    FIELD(ucs_sys_bus_id_t, domain);
    FIELD(ucs_sys_bus_id_t, bus);
    FIELD(ucs_sys_bus_id_t, slot);
    FIELD(ucs_sys_bus_id_t, function);
    SIZE(ucs_log_component_config_t);
    FIELD(ucs_log_component_config_t, log_level);
    FIELD(ucs_global_opts_t, log_component);
    SIZE(ucs_event_set_types_t);
    FIELD(ucm_event_t, vm_mapped.address);
    FIELD(ucm_event_t, vm_mapped.size);
    FIELD(ucm_event_t, vm_unmapped.address);
    FIELD(ucm_event_t, vm_unmapped.size);
    VALUE(UCM_EVENT_VM_MAPPED);
    VALUE(UCM_EVENT_VM_UNMAPPED);

    // Functions we call.
    CALL(ucm_set_event_handler);
    CALL(ucs_async_add_timer);
    CALL(ucs_async_remove_handler);
    CALL(ucs_async_set_event_handler);
    CALL(ucs_class_call_cleanup_chain);
    CALL(ucs_config_clone_double);
    CALL(ucs_config_clone_int);
    CALL(ucs_config_clone_string);
    CALL(ucs_config_clone_table);
    CALL(ucs_config_clone_uint);
    CALL(ucs_config_clone_ulong);
    CALL(ucs_config_help_enum);
    CALL(ucs_config_help_generic);
    CALL(ucs_config_help_table);
    CALL(ucs_config_parse_config_file);
    CALL(ucs_config_release_nop);
    CALL(ucs_config_release_string);
    CALL(ucs_config_release_table);
    CALL(ucs_config_sprintf_bool);
    CALL(ucs_config_sprintf_enum);
    CALL(ucs_config_sprintf_memunits);
    CALL(ucs_config_sprintf_string);
    CALL(ucs_config_sprintf_time);
    CALL(ucs_config_sprintf_uint);
    CALL(ucs_config_sprintf_ulunits);
    CALL(ucs_config_sscanf_bool);
    CALL(ucs_config_sscanf_enum);
    CALL(ucs_config_sscanf_memunits);
    CALL(ucs_config_sscanf_string);
    CALL(ucs_config_sscanf_table);
    CALL(ucs_config_sscanf_time);
    CALL(ucs_config_sscanf_uint);
    CALL(ucs_config_sscanf_ulunits);
    CALL(ucs_global_opts_set_value);
    CALL(ucs_log_dispatch);
    CALL(ucs_status_string);
    CALL(ucs_topo_find_device_by_bus_id);
    CALL(uct_md_mem_dereg);
    CALL(uct_md_mem_reg);

    VALUE(UCT_COMPONENT_NAME_MAX);
    VALUE(UCT_MD_NAME_MAX);
    VALUE(UCT_TL_NAME_MAX);
    VALUE(UCT_DEVICE_NAME_MAX);
    VALUE(UCT_AM_ID_MAX);
    VALUE(UCT_ALLOC_METHOD_LAST);
    VALUE(UCT_PENDING_REQ_PRIV_LEN);

    VALUE(UCT_MD_FLAG_ALLOC);
    VALUE(UCT_MD_FLAG_REG);
    VALUE(UCT_MD_FLAG_NEED_MEMH);
    VALUE(UCT_MD_FLAG_NEED_RKEY);
    VALUE(UCT_MD_FLAG_INVALIDATE);
    VALUE(UCT_MD_MEM_ACCESS_LOCAL_READ);
    VALUE(UCT_MD_MEM_ACCESS_LOCAL_WRITE);
    VALUE(UCT_MD_MEM_ACCESS_ALL);

    VALUE(UCT_IFACE_FLAG_AM_SHORT);
    VALUE(UCT_IFACE_FLAG_AM_BCOPY);
    VALUE(UCT_IFACE_FLAG_AM_ZCOPY);
    VALUE(UCT_IFACE_FLAG_PENDING);
    VALUE(UCT_IFACE_FLAG_PUT_SHORT);
    VALUE(UCT_IFACE_FLAG_PUT_BCOPY);
    VALUE(UCT_IFACE_FLAG_PUT_ZCOPY);
    VALUE(UCT_IFACE_FLAG_GET_SHORT);
    VALUE(UCT_IFACE_FLAG_GET_BCOPY);
    VALUE(UCT_IFACE_FLAG_GET_ZCOPY);
    VALUE(UCT_IFACE_FLAG_ATOMIC_CPU);
    VALUE(UCT_IFACE_FLAG_ATOMIC_DEVICE);
    VALUE(UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF);
    VALUE(UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM);
    VALUE(UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE);
    VALUE(UCT_IFACE_FLAG_EP_CHECK);
    VALUE(UCT_IFACE_FLAG_CONNECT_TO_IFACE);
    VALUE(UCT_IFACE_FLAG_CB_SYNC);
    VALUE(UCT_IFACE_FLAG_CB_ASYNC);
    VALUE(UCT_IFACE_FLAG_EP_KEEPALIVE);
    VALUE(UCT_IFACE_FLAG_EVENT_SEND_COMP);
    VALUE(UCT_IFACE_FLAG_EVENT_RECV);
    VALUE(UCT_IFACE_FLAG_EVENT_FD);
    VALUE(UCT_IFACE_PARAM_FIELD_OPEN_MODE);
    VALUE(UCT_IFACE_PARAM_FIELD_DEVICE);
    VALUE(UCT_IFACE_PARAM_FIELD_RX_HEADROOM);
    VALUE(UCT_IFACE_PARAM_FIELD_ERR_HANDLER);
    VALUE(UCT_IFACE_OPEN_MODE_DEVICE);
    VALUE(UCT_EP_PARAM_FIELD_IFACE);
    VALUE(UCT_EP_PARAM_FIELD_DEV_ADDR);
    VALUE(UCT_EP_PARAM_FIELD_IFACE_ADDR);
    VALUE(UCT_EP_PARAM_FIELD_PATH_INDEX);
    VALUE(UCT_CB_PARAM_FLAG_DESC);
    VALUE(UCT_CB_FLAG_ASYNC);
    VALUE(UCT_EVENT_SEND_COMP);
    VALUE(UCT_EVENT_RECV);
    VALUE(UCT_EVENT_RECV_SIG);
    VALUE(UCT_FLUSH_FLAG_LOCAL);
    VALUE(UCT_FLUSH_FLAG_CANCEL);
    VALUE(UCT_PROGRESS_SEND);
    VALUE(UCT_PROGRESS_RECV);
    VALUE(UCT_PROGRESS_THREAD_SAFE);
    VALUE(UCT_SEND_FLAG_SIGNALED);
    VALUE(UCT_SEND_FLAG_PEER_CHECK);
    VALUE(UCT_ATOMIC_OP_ADD);
    VALUE(UCT_ATOMIC_OP_AND);
    VALUE(UCT_ATOMIC_OP_OR);
    VALUE(UCT_ATOMIC_OP_XOR);
    VALUE(UCT_ATOMIC_OP_SWAP);
    VALUE(UCT_ATOMIC_OP_CSWAP);
    VALUE(UCT_DEVICE_TYPE_NET);
    VALUE(UCT_DEVICE_TYPE_SHM);
    VALUE(UCT_DEVICE_TYPE_ACC);
    VALUE(UCT_DEVICE_TYPE_SELF);

    VALUE(UCS_MEMORY_TYPE_HOST);
    VALUE(UCS_MEMORY_TYPE_CUDA);
    VALUE(UCS_MEMORY_TYPE_CUDA_MANAGED);
    VALUE(UCS_SYS_DEVICE_ID_UNKNOWN);
    VALUE(UCS_ASYNC_MODE_THREAD_SPINLOCK);
    VALUE(UCS_EVENT_SET_EVREAD);
    VALUE(UCS_LOG_LEVEL_FATAL);
    VALUE(UCS_LOG_LEVEL_ERROR);
    VALUE(UCS_LOG_LEVEL_WARN);
    VALUE(UCS_LOG_LEVEL_DIAG);
    VALUE(UCS_LOG_LEVEL_INFO);
    VALUE(UCS_LOG_LEVEL_DEBUG);

    VALUE(UCS_OK);
    VALUE(UCS_INPROGRESS);
    VALUE(UCS_ERR_NO_MESSAGE);
    VALUE(UCS_ERR_NO_RESOURCE);
    VALUE(UCS_ERR_IO_ERROR);
    VALUE(UCS_ERR_NO_MEMORY);
    VALUE(UCS_ERR_INVALID_PARAM);
    VALUE(UCS_ERR_UNREACHABLE);
    VALUE(UCS_ERR_INVALID_ADDR);
    VALUE(UCS_ERR_NO_DEVICE);
    VALUE(UCS_ERR_BUSY);
    VALUE(UCS_ERR_CANCELED);
    VALUE(UCS_ERR_UNSUPPORTED);
    VALUE(UCS_ERR_CONNECTION_RESET);
    VALUE(UCS_ERR_ENDPOINT_TIMEOUT);
    return 0;
}
