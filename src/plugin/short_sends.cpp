// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The preloaded library reports the interfaces. If UCP's calls do not pass through it, short sends
// are never allowed.
#include "plugin/short_sends.hpp"

#include "abi/host.hpp"
#include "abi/memory_detection.hpp"
#include "abi/memtype_cache.hpp"
#include "mem/unmap_watch.hpp"
#include "mpi/interface/calling_library.hpp"
#include "preload/module.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <mutex>
#include <string_view>

namespace gdr::plugin {
namespace {

// The interfaces that are open, or have been.
enum class Opened { none, ours, mpis, others };
Opened opened = Opened::none; // mpis: and ours
bool mpi_calls_come = false;
bool device_memory_comes = false; // in those calls
std::mutex mutex;                 // protects all of them

// Other interfaces carry no messages, such as UCX 1.22's placeholders for endpoints that are not
// connected.
bool is_on_device(const uct_iface_params_t& params)
{
    return (params.open_mode & UCT_IFACE_OPEN_MODE_DEVICE) != 0;
}
bool is_ours(const uct_iface_params_t& params)
{
    return std::string_view(params.mode.device.tl_name) == "gdr";
}

void decide()
{
    const bool allowed = opened == Opened::ours ||
                         (opened == Opened::mpis && mpi_calls_come && !device_memory_comes);
    if (abi::memtype_cache::created() && allowed != abi::memtype_cache::looks_empty()) {
        abi::memtype_cache::look_empty(allowed);
        gdr_log(debug, "UCP's short sends %s a look at what memory they are of",
                allowed ? "go without" : "take");
    }
}

bool is_decided(bool ours, bool by_ucp)
{
    const std::lock_guard lock(mutex);
    return opened == Opened::others || (ours && (opened != Opened::none || !by_ucp));
}

} // namespace

void prepare_short_sends()
{
    (void)abi::memtype_cache::create();
}

constexpr mpi::Listener listener_to_mpi = {
    .calls_come =
        [] {
            const std::lock_guard lock(mutex);
            mpi_calls_come = true;
            decide();
        },
    .device_memory_comes =
        [] {
            const std::lock_guard lock(mutex);
            device_memory_comes = true;
            decide();
        },
};

} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] void gdr_iface_opens(const void* uct_params, int by_ucp)
{
    using namespace gdr;
    using namespace gdr::plugin;
    const auto& params = *static_cast<const uct_iface_params_t*>(uct_params);
    if (!abi::memtype_cache::created() || !is_on_device(params)) {
        return;
    }
    const bool ours = is_ours(params);
    if (is_decided(ours, by_ucp != 0)) {
        return;
    }
    // Not under the mutex: a thread that holds locks of the loader may want it.
    const bool safe = by_ucp != 0 && abi::only_cuda_is_detected() &&
                      (ours ? mem::unmaps_are_seen() : mpi::is_in_mpi_library());
    const std::lock_guard lock(mutex);
    if (!safe) {
        opened = Opened::others;
    } else if (!ours && opened != Opened::others) {
        opened = Opened::mpis;
    } else if (opened == Opened::none) {
        opened = Opened::ours;
    }
    decide();
}
