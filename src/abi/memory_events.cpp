// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Watches what is mapped and unmapped. libucm's interface is public and the same in all series; its
// modules send events by functions that are the same, too.
#include "abi/memory_events.hpp"

#include "abi/uct_calls.hpp"

#include <utility>

extern "C" {
#include <ucm/api/ucm.h>

gdr::abi::MemoryEventBorder ucm_event_enter, ucm_event_leave;
gdr::abi::MemoryEventDispatch ucm_event_dispatch;
}

namespace gdr::abi {
namespace {

MappingCallback on_mapped;
MappingCallback on_unmapped;
MappingCallback on_freed;
thread_local constinit bool reports = false; // this thread is in report_freed()

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
    if (!reports) {
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

void report_freed(const void* address, size_t length)
{
    ucm_event_t event = {}; // later series have more in mem_type
    event.mem_type.address = const_cast<void*>(address);
    event.mem_type.size = length;
    event.mem_type.mem_type = UCS_MEMORY_TYPE_CUDA;
    const bool again = std::exchange(reports, true);
    ucm_event_enter();
    ucm_event_dispatch(UCM_EVENT_MEM_TYPE_FREE, &event);
    ucm_event_leave();
    reports = again;
}

} // namespace gdr::abi
