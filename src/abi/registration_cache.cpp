// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Sends the event that a UCX with CUDA sends from its hook of cuMemFree. libucm's modules send it
// with the same functions, which are the same in all series.
#include "abi/registration_cache.hpp"

#include "abi/context_settings.hpp"
#include "abi/series.hpp"
#include "abi/settings.hpp"
#include "abi/uct_calls.hpp"

#include <atomic>
#include <utility>

extern "C" {
gdr::abi::MemoryEventBorder ucm_event_enter, ucm_event_leave;
gdr::abi::MemoryEventDispatch ucm_event_dispatch;
}

namespace gdr::abi {
namespace {

std::atomic<bool> switched_off{false};
std::atomic<bool> kept{false};
std::atomic<bool> program_has_one{false};
thread_local constinit bool amid = false;

bool user_wants_none()
{
    const auto setting = user_setting("RCACHE_ENABLE");
    return setting && says_no(*setting);
}

bool is_off()
{
    static const bool by_user = user_wants_none();
    return (by_user || switched_off.load(std::memory_order_relaxed)) &&
           !program_has_one.load(std::memory_order_relaxed);
}

} // namespace

bool registration_cache_is_sound()
{
    return series().caches_soundly;
}

bool switch_off_registration_cache(const char* name, const char* value)
{
    const bool taken = set_default(name, value);
    switched_off = taken;
    return taken;
}

void keep_registration_cache()
{
    kept = true;
}

bool keeps_registration_cache()
{
    return kept;
}

void look_at_context()
{
    if (const auto setting = context_setting("RCACHE_ENABLE"); setting && !says_no(*setting)) {
        program_has_one = true;
    }
}

void end_registrations(const void* address, size_t length)
{
    if (length == 0 || is_off()) {
        return;
    }
    ucm_event_t event = {}; // later series have more in mem_type
    event.mem_type.address = const_cast<void*>(address);
    event.mem_type.size = length;
    event.mem_type.mem_type = UCS_MEMORY_TYPE_CUDA;
    const bool again = std::exchange(amid, true);
    ucm_event_enter();
    ucm_event_dispatch(UCM_EVENT_MEM_TYPE_FREE, &event);
    ucm_event_leave();
    amid = again;
}

bool ends_registrations()
{
    return amid;
}

} // namespace gdr::abi
