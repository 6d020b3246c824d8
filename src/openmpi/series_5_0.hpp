// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The structures that an accelerator component of Open MPI 5.0 shares with its library (the
// framework's interface 1.0, MCA 2.1), with the members' original names. They are internal to Open
// MPI and differ in its next series; test/mpi/component_check.cpp compares them with the headers of
// an Open MPI. The objects of a build with --enable-debug have more members.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::openmpi {

inline constexpr int kMajor = 5;
inline constexpr int kMinor = 0;

enum Result : int {
    kSuccess = 0,
    kError = -1,
    kOutOfResource = -2,
    kResourceBusy = -4,
    kBadParameter = -5,
};
inline constexpr int kNoDevice = -1; // "any", and "none"

// mca_base_component_2_1_0_t
struct McaComponent {
    int mca_major_version;
    int mca_minor_version;
    int mca_release_version;
    char mca_project_name[16];
    int mca_project_major_version; // of Open MPI
    int mca_project_minor_version;
    int mca_project_release_version;
    char mca_type_name[32]; // of the framework
    int mca_type_major_version;
    int mca_type_minor_version;
    int mca_type_release_version;
    char mca_component_name[64];
    int mca_component_major_version;
    int mca_component_minor_version;
    int mca_component_release_version;
    int (*mca_open_component)();
    int (*mca_close_component)();
    int (*mca_query_component)(void** module, int* priority);
    int (*mca_register_component_params)();
    int32_t mca_component_flags;
    char reserved[28];
};

// mca_base_component_data_2_0_0_t
struct McaComponentData {
    uint32_t param_field;
    char reserved[32];
};

// Objects are allocated with malloc(). Whoever drops the last reference frees them, after the
// destructors of their class.
struct Object;
struct Class {
    const char* cls_name;
    Class* cls_parent;
    void (*cls_construct)(Object*);
    void (*cls_destruct)(Object*);
    int cls_initialized; // the epoch of its initialisation
    int cls_depth;
    void (**cls_construct_array)(Object*); // both end with nullptr
    void (**cls_destruct_array)(Object*);
    size_t cls_sizeof;
};
struct Object {
    Class* obj_class;
    int32_t obj_reference_count; // atomic
};

// opal_accelerator_stream_t, opal_accelerator_event_t
struct Stream {
    Object super;
    void* stream;
};
struct Event {
    Object super;
    void* event;
};

struct PciAttributes {
    uint16_t domain_id;
    uint8_t bus_id;
    uint8_t device_id;
    uint8_t function_id;
};

enum TransferType { kUnspecified, kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

// opal_accelerator_base_module_t. Devices are ordinals or kNoDevice. Calls return a Result, except
// check_addr: a positive number for device memory, 0 for host memory.
struct Module {
    int (*check_addr)(const void* address, int* device, uint64_t* flags);
    int (*create_stream)(int device, Stream** stream);
    int (*create_event)(int device, Event** event);
    int (*record_event)(int device, Event* event, Stream* stream);
    int (*query_event)(int device, Event* event);
    int (*mem_copy_async)(int to_device, int from_device, void* to, const void* from, size_t length,
                          Stream* stream, TransferType type);
    int (*mem_copy)(int to_device, int from_device, void* to, const void* from, size_t length,
                    TransferType type);
    int (*mem_move)(int to_device, int from_device, void* to, const void* from, size_t length,
                    TransferType type);
    int (*mem_alloc)(int device, void** address, size_t length);
    int (*mem_release)(int device, void* address);
    int (*get_address_range)(int device, const void* address, void** base, size_t* length);
    int (*host_register)(int device, void* address, size_t length);
    int (*host_unregister)(int device, void* address);
    int (*get_device)(int* device);
    int (*get_device_pci_attr)(int device, PciAttributes* attributes);
    int (*device_can_access_peer)(int* access, int device, int peer);
    int (*get_buffer_id)(int device, const void* address, uint64_t* id);
};

// opal_accelerator_base_component_t
struct Component {
    McaComponent base_version;
    McaComponentData base_data;
    void* (*accelerator_init)(); // returns the module of the series
    void (*accelerator_finalize)(void* module);
};

} // namespace gdr::openmpi
