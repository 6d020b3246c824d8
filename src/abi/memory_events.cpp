// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Watches what is mapped and unmapped. libucm's interface is public and the same in all series.
#include "abi/memory_events.hpp"

#include "abi/registration_cache.hpp"

extern "C" {
#include <ucm/api/ucm.h>
}

namespace gdr::abi {
namespace {

MappingCallback on_mapped;
MappingCallback on_unmapped;
MappingCallback on_freed;

constexpr int kPriority = 1000; // as in UCX's own registration caches

void on_event(ucm_event_type_t type, ucm_event_t* event, void*)
{
    if (type == UCM_EVENT_VM_MAPPED) {
        on_mapped(event->vm_mapped.address, event->vm_mapped.size);
    } else {
        on_unmapped(event->vm_unmapped.address, event->vm_unmapped.size);
    }
}

void on_free(ucm_event_type_t, ucm_event_t* event, void*)
{
    if (!ends_registrations()) {
        on_freed(event->mem_type.address, event->mem_type.size);
    }
}

} // namespace

bool watch_mappings(MappingCallback mapped, MappingCallback unmapped)
{
    on_mapped = mapped;
    on_unmapped = unmapped;
    const auto watch = [](int event) {
        return ucm_set_event_handler(event, kPriority, on_event, nullptr) == UCS_OK;
    };
    if (!watch(UCM_EVENT_VM_UNMAPPED)) {
        return false;
    }
    watch(UCM_EVENT_VM_MAPPED); // fails if other hooks inform UCX, as Open MPI's do
    return true;
}

void watch_frees(MappingCallback freed)
{
    on_freed = freed;
    // Without this flag it would fail if the hooks cannot be installed.
    ucm_set_event_handler(UCM_EVENT_MEM_TYPE_FREE | UCM_EVENT_FLAG_NO_INSTALL, kPriority, on_free,
                          nullptr);
}

} // namespace gdr::abi
