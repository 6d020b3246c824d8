// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of ugdr.h for devices.
#include "sync/guarded.hpp"

#include <bit>

using namespace gdr::sync;

namespace {

constexpr unsigned kMostChannels = 64, kFewestEntries = 16, kMostEntries = 65536;

unsigned require_power_of_two(unsigned value, unsigned least, unsigned most, const char* what)
{
    if (!std::has_single_bit(value) || value < least || value > most) {
        throw Refusal(UCS_ERR_INVALID_PARAM, std::string(what) + ": a power of two from " +
                                                 std::to_string(least) + " to " +
                                                 std::to_string(most));
    }
    return value;
}

Device::Settings settings_of(const ugdr_device_params_t& params)
{
    const auto has = [&](uint64_t field) { return (params.field_mask & field) != 0; };
    require_known_fields(params.field_mask,
                         UGDR_DEVICE_PARAM_FIELD_CHANNELS | UGDR_DEVICE_PARAM_FIELD_ENTRIES |
                             UGDR_DEVICE_PARAM_FIELD_THREADS,
                         "ugdr_device_params_t");
    Device::Settings settings;
    if (has(UGDR_DEVICE_PARAM_FIELD_CHANNELS)) {
        settings.channels = require_power_of_two(params.channels, 1, kMostChannels, "channels");
    }
    if (has(UGDR_DEVICE_PARAM_FIELD_ENTRIES)) {
        settings.log_entries = static_cast<unsigned>(std::countr_zero(
            require_power_of_two(params.entries, kFewestEntries, kMostEntries, "entries")));
    }
    if (has(UGDR_DEVICE_PARAM_FIELD_THREADS)) {
        settings.threads = params.threads;
        if (params.threads == 0 || params.threads > settings.channels) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "threads: 1 to the number of channels");
        }
    }
    return settings;
}

} // namespace

UGDR_EXPORT ucs_status_t ugdr_device_open(ugdr_context_h context,
                                          const ugdr_device_params_t* params,
                                          ugdr_device_h* device_p)
{
    return guarded(context, [&] {
        require(device_p, "device_p");
        *device_p =
            context->open_device(params != nullptr ? settings_of(*params) : Device::Settings{});
    });
}

UGDR_EXPORT ucs_status_t ugdr_device_close(ugdr_device_h device)
{
    return device == nullptr
               ? UCS_ERR_INVALID_PARAM
               : guarded(device->context, [&] { device->context->close_device(*device); });
}

UGDR_EXPORT ucs_status_t ugdr_device_handle(ugdr_device_h device, ugdr_dev_t* handle_p)
{
    return device == nullptr ? UCS_ERR_INVALID_PARAM : guarded(device->context, [&] {
        require(handle_p, "handle_p");
        *handle_p = device->handle();
    });
}
