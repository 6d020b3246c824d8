// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/openmpi/series_5_0.hpp, or series_6_0.hpp, beside an Open MPI's own headers: does not compile
// where they differ. What is a member here is one there, of the same name, place and size.
#include "openmpi/series_6_0.hpp"

#include <cstddef>

#include <opal_config.h>

#if !__has_include(<opal/mca/threads/pthreads/threads_pthreads_mutex.h>)
// Debian's libopenmpi-dev lacks what these two of Open MPI 6 lead to.
#define OMPI_INFO_MEMKIND_H
#define OPAL_MCA_THREADS_MUTEX_H
struct ompi_memkind_t;
#endif

#include <opal/constants.h>
#include <opal/mca/accelerator/accelerator.h>

namespace ours = gdr::openmpi;

#define SAME_SIZE(here, there) static_assert(sizeof(here) == sizeof(there))
#define SAME_MEMBER(here, there, member)                                                           \
    static_assert(offsetof(here, member) == offsetof(there, member) &&                             \
                  sizeof(static_cast<here*>(nullptr)->member) ==                                   \
                      sizeof(static_cast<there*>(nullptr)->member))

static_assert((ours::kMajor == OPAL_MAJOR_VERSION && ours::kMinor == OPAL_MINOR_VERSION) ||
              (ours::kMajor6 == OPAL_MAJOR_VERSION && ours::kMinor6 == OPAL_MINOR_VERSION));
static_assert(int{ours::kSuccess} == int{OPAL_SUCCESS});
static_assert(int{ours::kError} == int{OPAL_ERROR});
static_assert(int{ours::kOutOfResource} == int{OPAL_ERR_OUT_OF_RESOURCE});
static_assert(int{ours::kResourceBusy} == int{OPAL_ERR_RESOURCE_BUSY});
static_assert(int{ours::kBadParameter} == int{OPAL_ERR_BAD_PARAM});
static_assert(ours::kNoDevice == MCA_ACCELERATOR_NO_DEVICE_ID);
static_assert(int{ours::kHostToHost} == int{MCA_ACCELERATOR_TRANSFER_HTOH});
static_assert(int{ours::kDeviceToDevice} == int{MCA_ACCELERATOR_TRANSFER_DTOD});
static_assert(MCA_BASE_VERSION_MAJOR == 2 && MCA_BASE_VERSION_MINOR == 1);

#define COMPONENT(member) SAME_MEMBER(ours::McaComponent, mca_base_component_2_1_0_t, member)
SAME_SIZE(ours::McaComponent, mca_base_component_2_1_0_t);
COMPONENT(mca_major_version);
COMPONENT(mca_minor_version);
COMPONENT(mca_release_version);
COMPONENT(mca_project_name);
COMPONENT(mca_project_major_version);
COMPONENT(mca_project_minor_version);
COMPONENT(mca_project_release_version);
COMPONENT(mca_type_name);
COMPONENT(mca_type_major_version);
COMPONENT(mca_type_minor_version);
COMPONENT(mca_type_release_version);
COMPONENT(mca_component_name);
COMPONENT(mca_component_major_version);
COMPONENT(mca_component_minor_version);
COMPONENT(mca_component_release_version);
COMPONENT(mca_open_component);
COMPONENT(mca_close_component);
COMPONENT(mca_query_component);
COMPONENT(mca_register_component_params);
COMPONENT(mca_component_flags);
SAME_SIZE(ours::McaComponentData, mca_base_component_data_2_0_0_t);

SAME_SIZE(ours::Component, opal_accelerator_base_component_t);
SAME_MEMBER(ours::Component, opal_accelerator_base_component_t, base_data);
SAME_MEMBER(ours::Component, opal_accelerator_base_component_t, accelerator_init);
SAME_MEMBER(ours::Component, opal_accelerator_base_component_t, accelerator_finalize);

SAME_SIZE(ours::Class, opal_class_t);
SAME_MEMBER(ours::Class, opal_class_t, cls_initialized);
SAME_MEMBER(ours::Class, opal_class_t, cls_construct_array);
SAME_MEMBER(ours::Class, opal_class_t, cls_destruct_array);
SAME_MEMBER(ours::Class, opal_class_t, cls_sizeof);
SAME_SIZE(ours::Object, opal_object_t);
SAME_MEMBER(ours::Object, opal_object_t, obj_class);
SAME_MEMBER(ours::Object, opal_object_t, obj_reference_count);
SAME_SIZE(ours::Stream, opal_accelerator_stream_t);
SAME_MEMBER(ours::Stream, opal_accelerator_stream_t, stream);
SAME_SIZE(ours::Event, opal_accelerator_event_t);
SAME_MEMBER(ours::Event, opal_accelerator_event_t, event);
SAME_SIZE(ours::PciAttributes, opal_accelerator_pci_attr_t);
SAME_MEMBER(ours::PciAttributes, opal_accelerator_pci_attr_t, bus_id);
SAME_MEMBER(ours::PciAttributes, opal_accelerator_pci_attr_t, function_id);

#if OPAL_MAJOR_VERSION == 5
using OursModule = ours::Module;
#else
using OursModule = ours::Module6;
#endif
#define FUNCTION(member) SAME_MEMBER(OursModule, opal_accelerator_base_module_t, member)
SAME_SIZE(OursModule, opal_accelerator_base_module_t);
FUNCTION(check_addr);
FUNCTION(create_stream);
FUNCTION(create_event);
FUNCTION(record_event);
FUNCTION(query_event);
FUNCTION(mem_copy_async);
FUNCTION(mem_copy);
FUNCTION(mem_move);
FUNCTION(mem_alloc);
FUNCTION(mem_release);
FUNCTION(get_address_range);
FUNCTION(host_register);
FUNCTION(host_unregister);
FUNCTION(get_device);
FUNCTION(get_device_pci_attr);
FUNCTION(device_can_access_peer);
FUNCTION(get_buffer_id);
#if OPAL_MAJOR_VERSION == 6
FUNCTION(sync_stream);
FUNCTION(wait_event);
FUNCTION(mem_move_async);
FUNCTION(mem_alloc_stream);
FUNCTION(mem_release_stream);
FUNCTION(is_ipc_enabled);
FUNCTION(open_ipc_event_handle);
FUNCTION(num_devices);
FUNCTION(get_mem_bw);
FUNCTION(get_memkind);
#endif
