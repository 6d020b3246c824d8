// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Watching what is mapped and unmapped. libucm's interface is public and alike in all series.
#include "abi/memory_events.hpp"

extern "C" {
#include <ucm/api/ucm.h>
}

namespace gdr::abi {
namespace {

MappingCallback on_mapped;
MappingCallback on_unmapped;

void on_event(ucm_event_type_t type, ucm_event_t* event, void*)
{
    if (type == UCM_EVENT_VM_MAPPED)
        on_mapped(event->vm_mapped.address, event->vm_mapped.size);
    else
        on_unmapped(event->vm_unmapped.address, event->vm_unmapped.size);
}

} // namespace

bool watch_mappings(MappingCallback mapped, MappingCallback unmapped)
{
    constexpr int kPriority = 1000; // as UCX's own registration caches
    on_mapped = mapped;
    on_unmapped = unmapped;
    const auto watch = [](int event) {
        return ucm_set_event_handler(event, kPriority, on_event, nullptr) == UCS_OK;
    };
    if (!watch(UCM_EVENT_VM_UNMAPPED))
        return false;
    watch(UCM_EVENT_VM_MAPPED); // not where others' hooks tell UCX, as Open MPI's do
    return true;
}

} // namespace gdr::abi
