// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Watching for unmapped memory. libucm's interface is public and alike in all series.
#include "abi/memory_events.hpp"

extern "C" {
#include <ucm/api/ucm.h>
}

namespace gdr::abi {
namespace {

UnmapCallback watcher;

void on_unmapped(ucm_event_type_t, ucm_event_t* event, void*)
{
    watcher(event->vm_unmapped.address, event->vm_unmapped.size);
}

} // namespace

bool watch_unmap(UnmapCallback callback)
{
    constexpr int kPriority = 1000; // as UCX's own registration caches
    watcher = callback;
    return ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, kPriority, on_unmapped, nullptr) == UCS_OK;
}

} // namespace gdr::abi
