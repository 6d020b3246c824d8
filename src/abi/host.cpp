// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The asynchronous thread and the topology of the UCX in this process.
#include "abi/host.hpp"

#include "abi/uct_calls.hpp"

#include <cstdio>
#include <optional>

#include <unistd.h>

extern "C" {
#include <ucs/async/async_fwd.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/time/time_def.h>

gdr::abi::CpuClocksPerSec ucs_get_cpu_clocks_per_sec; // the unit of ucs_time_t
}

namespace gdr::abi {
namespace {

// UCX's asynchronous thread runs event handlers without an async context, with no lock held. The
// mode chooses that thread.
constexpr ucs_async_mode_t kAsyncMode = UCS_ASYNC_MODE_THREAD_SPINLOCK;

std::optional<ucs_sys_bus_id_t> parse_bus_id(const std::string& text)
{
    unsigned domain, bus, slot, function;
    if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
        return std::nullopt;
    }
    return ucs_sys_bus_id_t{static_cast<uint16_t>(domain), static_cast<uint8_t>(bus),
                            static_cast<uint8_t>(slot), static_cast<uint8_t>(function)};
}

bool is_in_sys(const ucs_sys_bus_id_t& id)
{
    char place[64];
    std::snprintf(place, sizeof place, "/sys/bus/pci/devices/%04x:%02x:%02x.%x", id.domain, id.bus,
                  id.slot, id.function);
    return access(place, F_OK) == 0;
}

ucs_sys_device_t find_sys_device(const ucs_sys_bus_id_t& id)
{
    ucs_sys_device_t device;
    return ucs_topo_find_device_by_bus_id(&id, &device) == UCS_OK ? device
                                                                  : UCS_SYS_DEVICE_ID_UNKNOWN;
}

} // namespace

ucs_status_t async_add_fd(int fd, AsyncCallback callback, void* arg)
{
    return ucs_async_set_event_handler(kAsyncMode, fd, UCS_EVENT_SET_EVREAD, callback, arg,
                                       nullptr);
}

void async_remove_fd(int fd)
{
    ucs_async_remove_handler(fd, 1);
}

ucs_status_t async_add_timer(double interval_seconds, AsyncCallback callback, void* arg, int* id)
{
    const auto interval = static_cast<ucs_time_t>(interval_seconds * ucs_get_cpu_clocks_per_sec());
    return ucs_async_add_timer(kAsyncMode, interval, callback, arg, nullptr, id);
}

void async_remove_timer(int id)
{
    ucs_async_remove_handler(id, 1);
}

ucs_sys_device_t sys_device_of_pci(const std::string& bus_id)
{
    const auto id = parse_bus_id(bus_id);
    return id ? find_sys_device(*id) : UCS_SYS_DEVICE_ID_UNKNOWN;
}

ucs_sys_device_t sys_device_of_gpu(const std::string& bus_id)
{
    const auto id = parse_bus_id(bus_id);
    return id && is_in_sys(*id) ? find_sys_device(*id) : UCS_SYS_DEVICE_ID_UNKNOWN;
}

} // namespace gdr::abi
