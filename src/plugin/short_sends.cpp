// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Heard of by the library that is preloaded: where UCP's calls do not pass through that, no short
// send is ever allowed.
#include "plugin/short_sends.hpp"

#include "abi/memory_detection.hpp"
#include "abi/memtype_cache.hpp"
#include "mem/unmap_watch.hpp"
#include "mpi/serve.hpp"
#include "preload/module.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <mutex>
#include <string_view>

namespace gdr::plugin {
namespace {

// Decided when the first interface is opened, and again with each that is not ours.
enum class ShortSends {
    not_yet,
    among_ours,
    without_gpu_memory, // MPI libraries', which have seen none
    never
};
ShortSends short_sends = ShortSends::not_yet;
bool device_memory_came = false;
std::mutex mutex; // guards them

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

void decide(ShortSends decision)
{
    const bool allowed = decision != ShortSends::never;
    if (allowed != abi::memtype_cache::looks_empty())
        abi::memtype_cache::look_empty(allowed);
    short_sends = decision;
}

ShortSends with_ours()
{
    const bool safe = mem::unmaps_are_seen() && abi::only_cuda_is_detected();
    return safe ? ShortSends::among_ours : ShortSends::never;
}

ShortSends with_others(bool by_ucp)
{
    const bool safe = short_sends != ShortSends::never && by_ucp && mpi::is_initialising() &&
                      !device_memory_came && abi::only_cuda_is_detected();
    return safe ? ShortSends::without_gpu_memory : ShortSends::never;
}

} // namespace

void prepare_short_sends()
{
    (void)abi::memtype_cache::create();
}

void device_memory_comes()
{
    const std::lock_guard lock(mutex);
    device_memory_came = true;
    if (short_sends == ShortSends::without_gpu_memory)
        decide(ShortSends::never);
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
    if (!is_ours(params))
        decide(with_others(by_ucp != 0));
    else if (short_sends == ShortSends::not_yet && by_ucp)
        decide(with_ours());
}
