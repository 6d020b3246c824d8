// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What we use of the UCX process around us besides the transport interface: its version and series,
// its logger, its asynchronous thread, its device topology. Its settings are in settings.hpp.
#pragma once

extern "C" {
#include <uct/api/uct.h>
}

#include <cstdint>
#include <string>

namespace gdr::abi {

// Chooses the series of the UCX in this process. False: unknown version or a layout that does not
// match; why_not() then holds one line with the reason and what the user can do. Nothing else in
// this directory may be called in that case, log() excepted. Asked again it looks again until it is
// true.
bool choose_series();
const std::string& why_not();

enum class LogLevel { error, warn, diag, info, debug };

// Through UCX's logger, under the level the user set (UCX_LOG_LEVEL).
[[gnu::format(printf, 4, 5)]] void log_message(LogLevel level, const char* file, unsigned line,
                                               const char* format, ...);
bool log_enabled(LogLevel level);

// Calls from UCX's asynchronous thread, serialised with one another. remove() returns after a
// running callback has ended; it must not be called from a callback and the caller must hold no
// lock that one takes.
using AsyncCallback = void (*)(int id, uint8_t events, void* arg);    // ucs_async_event_cb_t
ucs_status_t async_add_fd(int fd, AsyncCallback callback, void* arg); // readable
void async_remove_fd(int fd);
ucs_status_t async_add_timer(double interval_seconds, AsyncCallback callback, void* arg, int* id);
void async_remove_timer(int id);

// UCS_SYS_DEVICE_ID_UNKNOWN when the topology does not know it. bus_id as "0000:3b:00.0".
ucs_sys_device_t sys_device_of_pci(const std::string& bus_id);

} // namespace gdr::abi

#define gdr_log(level, ...)                                                                        \
    ::gdr::abi::log_message(::gdr::abi::LogLevel::level, __FILE__, __LINE__, __VA_ARGS__)
