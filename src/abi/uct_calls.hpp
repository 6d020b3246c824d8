// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Types of functions that libuct, libucs and libucm export and whose declarations UCX does not
// install; they are the same in all series. A caller declares the function with its type. The
// layout check compares the types with a UCX source tree.
#pragma once

#include "abi/base.hpp"

extern "C" {
#include <ucm/api/ucm.h>
#include <ucs/type/class.h>
}

namespace gdr::abi {

using BaseIfaceInit = ucs_status_t(void* iface, ucs_class_t* type, int* init_count,
                                   uct_iface_ops_t* ops, const void* internal_ops, uct_md_h md,
                                   uct_worker_h worker, const uct_iface_params_t* params,
                                   const uct_iface_config_t* config);
using BaseEpInit = ucs_status_t(void* ep, ucs_class_t* type, int* init_count, void* iface);
using BaseIfaceQuery = void(void* iface, uct_iface_attr_t* attr);
using HandleEpErr = ucs_status_t(uct_iface_h iface, uct_ep_h ep, ucs_status_t status);
using ComponentRegister = void(void* component);
using TlRegister = void(void* component, void* tl);
using IfaceOpen = ucs_status_t(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                               const uct_iface_config_t* config, uct_iface_h* iface);
using InvalidateRegion = void(void* rcache, void* region, void (*completed)(void*), void* argument);
using MemoryTypeLookup = ucs_status_t(const void* address, size_t length, void* info);
// UCX 1.22 added the flags; earlier series have one parameter less.
using MemoryTypeUpdate = void(const void* address, size_t length, ucs_memory_type_t type,
                              ucs_sys_device_t sys_device, uint8_t flags);
using MemoryTypeRemove = void(const void* address, size_t length);
using MemoryEventBorder = void(); // around a dispatch
using MemoryEventDispatch = void(ucm_event_type_t type, ucm_event_t* event);
// The last parameter returns what is needed to undo the patch.
using PatchFunction = ucs_status_t(void* function, void* hook, const char* name, void** original,
                                   void** restore_point);
using ApplyPatch = ucs_status_t(void* code, void* patch, size_t length);
using CpuClocksPerSec = double();

} // namespace gdr::abi
