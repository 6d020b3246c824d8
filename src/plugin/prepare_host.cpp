// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The settings, with their reasons.
#include "plugin/prepare_host.hpp"

#include "abi/host.hpp"
#include "abi/own_cuda.hpp"
#include "abi/registration_cache.hpp"
#include "abi/settings.hpp"
#include "cuda/driver.hpp"
#include "plugin/short_sends.hpp"
#include "verbs/device.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gdr::plugin {
namespace {

struct Setting {
    const char* name; // without UCX_
    const char* value;
    const char* reason;
    bool (*set)(const char* name, const char* value);
    bool taken = false;
};

// A global option takes effect at once; setting the default as well makes ucx_info -c show it.
bool set_global_and_default(const char* name, const char* value)
{
    return abi::set_global_option(name, value) && abi::set_default(name, value);
}

std::vector<Setting> wanted()
{
    std::vector<Setting> settings = {
        {"MEMTYPE_CACHE", "n",
         "what this cache misses counts as host memory, and nothing fills it but a UCX with CUDA, "
         "with the allocations that it sees",
         set_global_and_default}};
    if (!abi::registration_cache_is_sound()) {
        settings.push_back({"RCACHE_ENABLE", "n",
                            "protocols v2 of this UCX release registrations that are in use",
                            abi::switch_off_registration_cache});
    }
    return settings;
}

std::vector<Setting>& changed()
{
    static std::vector<Setting> settings;
    return settings;
}

// A UCX with CUDA needs gdr beside its own transports, and programs may ask it for those. Without
// an HCA gdr is no way to other hosts: UCX's own transports are needed then.
void choose_transports()
{
    const auto transports = abi::user_setting("GDR_TLS");
    if (!transports || transports->empty() || abi::user_setting("TLS") || abi::built_with_cuda() ||
        !verbs::may_have_devices()) {
        return;
    }
    if (!abi::set_default("TLS", transports->c_str())) {
        gdr_log(warn, "UCX did not take UCX_TLS=%s from UCX_GDR_TLS: set UCX_TLS",
                transports->c_str());
    }
}

// The device name of an HCA contains a port number: "mlx5_0:1". A list that may be a pattern, or
// that excludes devices, counts as naming one.
bool user_names_no_hca()
{
    const auto devices = abi::user_setting("NET_DEVICES");
    return devices && !devices->empty() && devices->find_first_of(":*?[^") == std::string::npos &&
           devices->find("all") == std::string::npos;
}

bool switches_off_registration_cache(const Setting& setting)
{
    return setting.set == abi::switch_off_registration_cache;
}

} // namespace

std::string prepare_host(Moment moment)
{
    if (!abi::user_wants_gdr() || cuda::open_driver() == nullptr) {
        return {};
    }
    choose_transports();
    std::vector<Setting> settings = wanted();
    std::erase_if(settings, [](const Setting& setting) {
        return abi::user_setting(setting.name).has_value();
    });
    auto default_only = std::ranges::find_if(settings, switches_off_registration_cache);
    if (default_only != settings.end() && (!verbs::may_have_devices() || user_names_no_hca())) {
        settings.erase(default_only);
        default_only = settings.end();
        abi::keep_registration_cache();
    }
    if (default_only != settings.end() && moment == Moment::loaded && abi::ucp_is_loading_us()) {
        return std::string("UCX loaded it after reading its configuration, too late for UCX_") +
               default_only->name + "=" + default_only->value +
               ": set that, or link libuct_gdr.so.0 as libucs_gdr.so.0 too into its directory, so "
               "that UCX loads it earlier (" +
               default_only->reason + ")";
    }
    if (moment == Moment::ucx_starts) {
        prepare_short_sends();
    }
    for (Setting& setting : settings) {
        setting.taken = setting.set(setting.name, setting.value);
    }
    changed() = std::move(settings);
    return {};
}

void report_preparation()
{
    for (const Setting& setting : changed()) {
        if (setting.taken) {
            gdr_log(info, "UCX_%s=%s: %s", setting.name, setting.value, setting.reason);
        } else {
            gdr_log(warn, "UCX did not take UCX_%s=%s, set it in the environment: %s", setting.name,
                    setting.value, setting.reason);
        }
    }
}

} // namespace gdr::plugin
