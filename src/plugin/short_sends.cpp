// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Heard of by the library that is preloaded: where UCP's calls do not pass through that, no short
// send is ever allowed.
#include "plugin/short_sends.hpp"

#include "abi/memory_detection.hpp"
#include "abi/memtype_cache.hpp"
#include "mem/unmap_watch.hpp"
#include "preload/module.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <mutex>
#include <string_view>

namespace gdr::plugin {
namespace {

enum class ShortSends { not_yet, allowed, never }; // decided when UCP opens the first interface
ShortSends short_sends = ShortSends::not_yet;
std::mutex mutex; // guards it

// Others, as UCX 1.22's stand-ins for endpoints that are not connected yet or no longer, carry no
// messages.
bool is_on_device(const uct_iface_params_t& params)
{
    return (params.open_mode & UCT_IFACE_OPEN_MODE_DEVICE) != 0;
}
bool is_ours(const uct_iface_params_t& params)
{
    return std::string_view(params.mode.device.tl_name) == "gdr";
}

} // namespace

void prepare_short_sends()
{
    (void)abi::memtype_cache::create();
}

} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] void gdr_iface_opens(const void* uct_params, int by_ucp)
{
    using namespace gdr;
    using namespace gdr::plugin;
    const auto& params = *static_cast<const uct_iface_params_t*>(uct_params);
    if (!abi::memtype_cache::created() || !is_on_device(params))
        return;
    const std::lock_guard lock(mutex);
    if (!is_ours(params)) {
        if (short_sends == ShortSends::allowed)
            abi::memtype_cache::look_empty(false);
        short_sends = ShortSends::never;
    } else if (short_sends == ShortSends::not_yet && by_ucp) {
        const bool safe = mem::unmaps_are_seen() && abi::only_cuda_is_detected();
        if (safe)
            abi::memtype_cache::look_empty(true);
        short_sends = safe ? ShortSends::allowed : ShortSends::never;
    }
}
