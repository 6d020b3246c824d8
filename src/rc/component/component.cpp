// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What UCT is told about the HCAs.
#include "rc/component/component.hpp"
#include "config.h"

#include "abi/context_settings.hpp"
#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "host/registration_cache.hpp"
#include "log/log.hpp"
#include "rc/component/fork_safety.hpp"
#include "rc/component/gpu_map.hpp"
#include "rc/component/hca_search.hpp"
#include "rc/component/open_iface.hpp"
#include "rc/component/trial.hpp"
#include "rc/connect/local_port.hpp"
#include "rc/memory_domain.hpp"
#include "rc/queues/registered_memory.hpp"
#include "rc/queues/settings.hpp"
#include "rc/remote_key.hpp"
#include "verbs/error.hpp"
#include "verbs/gid.hpp"
#include "verbs/pkey.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace gdr::rc {
namespace {

constexpr size_t kLongestName = UCT_MD_NAME_MAX - 1;

std::vector<std::string> query_md_resources()
{
    std::string reason;
    std::vector<std::string> names = verbs::device_names(&reason);
    static bool logged = false; // UCT asks more than once
    if (names.empty() && !std::exchange(logged, true)) {
        log::message(abi::user_names_gdr() ? log::Level::warn : log::Level::diag, __FILE__,
                     __LINE__, "no HCA, so no network transport: %s" GDR_NO_HCA_HINT,
                     reason.c_str());
    }
    if (!names.empty() && host::registration_cache().kept()) {
        names.clear();
        if (!std::exchange(logged, true) && !abi::context_setting("NET_DEVICES")) {
            gdr_log(warn, "no HCA is used: there was none when UCX started, so its cache of "
                          "registrations was left on, which would keep those of freed GPU memory. "
                          "Start the program again, or set UCX_RCACHE_ENABLE=n");
        }
    }
    std::erase_if(names, [](const std::string& name) {
        if (name.size() > kLongestName) {
            gdr_log(warn,
                    "%s is not used: UCX allows names of %zu characters (rdma dev set %s name "
                    "SHORTER)",
                    name.c_str(), kLongestName, name.c_str());
        }
        return name.size() > kLongestName;
    });
    hca_search().begin(names);
    return names;
}

std::unique_ptr<abi::MemoryDomain> open_md(const char* name, const abi::MdConfig* config)
{
    try {
        const auto& settings = *reinterpret_cast<const MdSettings*>(config);
        provide_for_forks(settings.fork_init);
        return std::make_unique<MemoryDomain>(name, settings);
    } catch (...) { // the caller of open_md reports the reason
        hca_search().record(name, {}, "");
        throw;
    }
}

ucs_status_t unpack_rkey(const void* buffer, uct_rkey_t* rkey, void** handle)
{
    *handle = nullptr;
    return unpack(*static_cast<const PackedRemoteKey*>(buffer), rkey);
}

void release_rkey(uct_rkey_t, void*) {}

// Caches the result. A process looks at its HCAs several times, and root reads the vital product
// data of a PCI function word by word from its firmware.
bool manages_switches(const verbs::Device& device)
{
    static std::mutex lock;
    static auto& known = *new std::map<std::string, bool>;
    const std::lock_guard guard(lock);
    const auto [answer, is_new] = known.try_emplace(device.name());
    if (is_new) {
        answer->second = device.sysfs().manages_switches();
    }
    return answer->second;
}

// Why a port cannot be used; empty if it can.
std::string obstacle(MemoryDomain& md, const verbs::Port& port)
{
    const verbs::Device& device = md.device();
    std::string reason;
    const std::string state = ibv_port_state_str(port.attributes.state);
    switch (port.attributes.state) {
    case IBV_PORT_ACTIVE:
        if (!port.ethernet && manages_switches(device)) {
            return "leads to the NVSwitches of this machine, which are managed by it, and to no "
                   "other machine (SW_MNG in its vital product data or node description)";
        }
        if (reason = try_queues(device, md.pd(), port); !reason.empty()) {
            return reason;
        }
        if (!verbs::choose_gid(md.pd(), port, std::nullopt, &reason)) {
            return "has " + reason;
        }
        if (!port.ethernet && !verbs::choose_pkey(device.context(), port, std::nullopt)) {
            return "has no partition key (is a subnet manager running?)";
        }
        try {
            md.reserve(port);
        } catch (const verbs::Error& error) {
            return "cannot be given buffers: " + cause_of(error);
        }
        return {};
    case IBV_PORT_DOWN:
        return "is " + state +
               (port.ethernet ? " (is its network interface up, and its cable "
                                "plugged in?)"
                              : " (is its cable plugged in?)");
    default:
        return "is " + state + (port.ethernet ? "" : " (is a subnet manager running?)");
    }
}

std::vector<abi::Device> query_devices(abi::MemoryDomain& md)
{
    MemoryDomain& domain = static_cast<MemoryDomain&>(md);
    const verbs::Device& device = domain.device();
    ucs_sys_device_t sys_device = abi::sys_device_of_pci(device.sysfs().pci_bus_id());
    std::vector<abi::Device> devices;
    std::string unusable;
    std::vector<topology::Port> usable;
    for (const verbs::Port& port : device.ports()) {
        const std::string name = port_name(device, port), why_not = obstacle(domain, port);
        if (why_not.empty()) {
            devices.push_back({name, UCT_DEVICE_TYPE_NET, sys_device});
            usable.push_back(port_of_map(name, device, port));
        } else {
            unusable += (unusable.empty() ? "" : "; ") + name + " " + why_not;
        }
    }
    hca_search().record(device.name(), usable, unusable);
    domain.has_offered = !devices.empty();
    return devices;
}

} // namespace

const abi::Component& component()
{
    static const abi::Component component{
        .name = "gdr_rc",
        .query_md_resources = query_md_resources,
        .open_md = open_md,
        .unpack_rkey = unpack_rkey,
        .release_rkey = release_rkey,
        .md_options = md_options(),
        .transports = {{"gdr", query_devices, iface_open, iface_options()}},
    };
    return component;
}

} // namespace gdr::rc
