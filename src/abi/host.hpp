// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What we use of the UCX in this process besides the transport interface: its version and series,
// its asynchronous thread, its device topology. Its settings are in settings.hpp, its logger is in
// ucx_log.hpp.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

#include <cstdint>
#include <string>

namespace gdr::abi {

// Chooses the series of the UCX in this process, and leads the log to that UCX. Returns false if
// the version is unknown or the layout does not match; then why_not() gives the reason and what the
// user can do, in one line, and nothing else in this directory may be called. A later call tries
// again until it has returned true.
bool choose_series();
const std::string& why_not();

// Callbacks run in UCX's asynchronous thread, one at a time. remove() returns after a running
// callback has ended. It must not be called from a callback, and the caller must hold no lock that
// a callback takes.
using AsyncCallback = void (*)(int id, uint8_t events, void* arg);    // ucs_async_event_cb_t
ucs_status_t async_add_fd(int fd, AsyncCallback callback, void* arg); // readable
void async_remove_fd(int fd);
ucs_status_t async_add_timer(double interval_seconds, AsyncCallback callback, void* arg, int* id);
void async_remove_timer(int id);

// UCS_SYS_DEVICE_ID_UNKNOWN if the topology does not know it. bus_id as "0000:3b:00.0".
ucs_sys_device_t sys_device_of_pci(const std::string& bus_id);

// The same, and UCS_SYS_DEVICE_ID_UNKNOWN if /sys does not show it, as in some containers and
// virtual machines: UCP looks there for the way from a GPU to an HCA, and ends the process if it
// does not find it.
ucs_sys_device_t sys_device_of_gpu(const std::string& bus_id);

} // namespace gdr::abi
