// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "plugin/interfaces.hpp"

#include "abi/memory_detection.hpp"
#include "host/memtype_cache.hpp"
#include "host/short_sends.hpp"
#include "mem/unmap_watch.hpp"
#include "mpi/interface/calling_library.hpp"
#include "preload/module.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <string_view>

namespace gdr::plugin {
namespace {

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

} // namespace

constexpr mpi::Listener listener_to_mpi = {
    .calls_come = [] { host::short_sends().mpi_calls_come(); },
    .device_memory_comes = [] { host::short_sends().device_memory_comes(); },
};

} // namespace gdr::plugin

extern "C" [[gnu::visibility("default")]] void gdr_iface_opens(const void* uct_params, int by_ucp)
{
    using namespace gdr;
    const auto& params = *static_cast<const uct_iface_params_t*>(uct_params);
    if (!host::memtype_cache().held() || !plugin::is_on_device(params)) {
        return;
    }
    const bool ours = plugin::is_ours(params);
    if (host::short_sends().is_decided(ours, by_ucp != 0)) {
        return;
    }
    const bool safe = by_ucp != 0 && abi::only_cuda_is_detected() &&
                      (ours ? mem::unmaps_are_seen() : mpi::is_in_mpi_library());
    host::short_sends().opens(ours, safe);
}
