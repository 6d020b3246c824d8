// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The settings, and why.
#include "plugin/prepare_host.hpp"

#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "plugin/transport_list.hpp"

#include <vector>

namespace gdr::plugin {
namespace {

// From UCX 1.22 on UCP loads us when it has read its configuration, if not from libucs before.
bool too_late;

struct Setting {
    const char* name; // without UCX_
    const char* value;
    const char* reason;
    bool (*set)(const char* name, const char* value);
    bool taken = false;
};

// A global option is in force at once; as a default it is also what ucx_info -c shows.
bool set_global_and_default(const char* name, const char* value)
{
    return abi::set_global_option(name, value) && abi::set_default(name, value);
}

std::vector<Setting> wanted()
{
    std::vector<Setting> settings{
        {"MEMTYPE_CACHE", "n",
         "without CUDA in UCX itself nothing fills this cache, and what it misses counts as host "
         "memory",
         set_global_and_default},
        {"RCACHE_ENABLE", "n",
         "UCP's cache does not learn that device memory was freed; gdr has one that checks each "
         "hit",
         abi::set_default},
    };
    if (!abi::protocols_v2_default())
        settings.push_back({"PROTO_ENABLE", "y",
                            "protocols v1 touch device memory with the CPU in small transfers",
                            abi::set_default});
    return settings;
}

std::vector<Setting>& changed()
{
    static std::vector<Setting> settings;
    return settings;
}

} // namespace

void prepare_host()
{
    if (!lists_transport(abi::user_setting("TLS").value_or("all"), "gdr"))
        return;
    too_late = abi::configuration_was_read();
    for (Setting& setting : wanted()) {
        if (abi::user_setting(setting.name))
            continue;
        setting.taken = setting.set(setting.name, setting.value);
        changed().push_back(setting);
    }
}

void report_preparation()
{
    for (const Setting& setting : changed()) {
        if (setting.taken && too_late && setting.set == abi::set_default)
            gdr_log(warn,
                    "UCX_%s=%s comes too late for the first context: set it in the environment, or "
                    "let UCX load libuct_gdr.so.0 as libucs_gdr.so.0 too (%s)",
                    setting.name, setting.value, setting.reason);
        else if (setting.taken)
            gdr_log(info, "UCX_%s=%s: %s", setting.name, setting.value, setting.reason);
        else
            gdr_log(warn, "UCX did not take UCX_%s=%s, set it in the environment: %s", setting.name,
                    setting.value, setting.reason);
    }
}

} // namespace gdr::plugin
