// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What differs in Open MPI 6.0 (seen in 6.0.0rc2): the module. Components, objects and results are
// as in 5.0.
#pragma once

#include "openmpi/series_5_0.hpp"

namespace gdr::openmpi {

inline constexpr int kMajor6 = 6;
inline constexpr int kMinor6 = 0;

// opal_accelerator_base_module_t. Members that are not set here are the null component's own:
// streams and events on which nothing is ever under way, and IPC that is not supported.
struct Module6 {
    using Null = void (*)();

    int (*check_addr)(const void* address, int* device, uint64_t* flags);
    Null create_stream, sync_stream, create_event, record_event, query_event, wait_event;
    int (*mem_copy_async)(int to_device, int from_device, void* to, const void* from, size_t length,
                          Stream* stream, TransferType type);
    int (*mem_copy)(int to_device, int from_device, void* to, const void* from, size_t length,
                    TransferType type);
    int (*mem_move_async)(int to_device, int from_device, void* to, const void* from, size_t length,
                          Stream* stream, TransferType type);
    int (*mem_move)(int to_device, int from_device, void* to, const void* from, size_t length,
                    TransferType type);
    int (*mem_alloc)(int device, void** address, size_t length);
    int (*mem_release)(int device, void* address);
    int (*mem_alloc_stream)(int device, void** address, size_t length, Stream* stream);
    int (*mem_release_stream)(int device, void* address, Stream* stream);
    int (*get_address_range)(int device, const void* address, void** base, size_t* length);
    Null is_ipc_enabled, get_ipc_handle, import_ipc_handle, open_ipc_handle, compare_ipc_handles,
        get_ipc_event_handle, import_ipc_event_handle, open_ipc_event_handle;
    int (*host_register)(int device, void* address, size_t length);
    int (*host_unregister)(int device, void* address);
    int (*get_device)(int* device);
    int (*get_device_pci_attr)(int device, PciAttributes* attributes);
    int (*device_can_access_peer)(int* access, int device, int peer);
    int (*get_buffer_id)(int device, const void* address, uint64_t* id);
    int (*num_devices)(int* devices);
    Null get_mem_bw, get_memkind;
};

} // namespace gdr::openmpi
