// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What UCT is told of the HCAs.
#include "rc/component.hpp"

#include "abi/host.hpp"
#include "abi/settings.hpp"
#include "plugin/transport_list.hpp"
#include "rc/iface.hpp"
#include "rc/memory_domain.hpp"
#include "rc/remote_key.hpp"

#include <utility>

namespace gdr::rc {
namespace {

constexpr size_t kLongestName = UCT_MD_NAME_MAX - 1;

std::vector<std::string> query_md_resources()
{
    std::string reason;
    std::vector<std::string> names = verbs::device_names(&reason);
    static bool said = false; // UCT asks more than once
    if (names.empty() && !std::exchange(said, true)) {
        // Who asked for gdr by name must learn why it is not there; who did not need not.
        bool asked_for = plugin::names_transport(abi::user_setting("TLS").value_or(""), "gdr");
        abi::log_message(asked_for ? abi::LogLevel::warn : abi::LogLevel::diag, __FILE__, __LINE__,
                         "no HCA, so no network transport: %s (\"ucx-gdr run\" can emulate one)",
                         reason.c_str());
    }
    std::erase_if(names, [](const std::string& name) {
        if (name.size() > kLongestName) {
            gdr_log(warn,
                    "%s is not used: UCX allows names of %zu characters (rename the RDMA device)",
                    name.c_str(), kLongestName);
        }
        return name.size() > kLongestName;
    });
    return names;
}

std::unique_ptr<abi::MemoryDomain> open_md(const char* name, const abi::MdConfig*)
{
    return std::make_unique<MemoryDomain>(name);
}

ucs_status_t unpack_rkey(const void* buffer, uct_rkey_t* rkey, void** handle)
{
    *handle = nullptr;
    return unpack(*static_cast<const PackedRemoteKey*>(buffer), rkey);
}

void release_rkey(uct_rkey_t, void*) {}

std::vector<abi::Device> query_devices(abi::MemoryDomain& md)
{
    const verbs::Device& device = static_cast<MemoryDomain&>(md).device();
    ucs_sys_device_t sys_device = abi::sys_device_of_pci(device.pci_bus_id());
    std::vector<abi::Device> devices;
    for (const verbs::Port& port : device.ports()) {
        if (port.active()) {
            devices.push_back({device_name(device, port), UCT_DEVICE_TYPE_NET, sys_device});
        } else {
            gdr_log(diag, "%s is not used: port state %s", device_name(device, port).c_str(),
                    ibv_port_state_str(port.attributes.state));
        }
    }
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
        .md_options = {"gdr RC memory domain", "GDR_RC_", {}, sizeof(abi::MdConfig)},
        .transports = {{"gdr", query_devices, iface_open, iface_options()}},
    };
    return component;
}

} // namespace gdr::rc
