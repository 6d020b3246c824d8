// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/connect/local_port.hpp"

#include "log/log.hpp"
#include "verbs/pkey.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace gdr::rc {
namespace {

constexpr uint16_t kDefaultPkey = 0xffff;
constexpr uint8_t kHopLimit = 64;

void log_ignored(const char* variable, unsigned long value, const char* allowed)
{
    gdr_log(warn, "UCX_GDR_RC_%s=%lu is ignored: %s", variable, value, allowed);
}

ibv_mtu to_mtu(unsigned long bytes, ibv_mtu largest)
{
    if (bytes == abi::kAuto) {
        return largest;
    }
    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; ++mtu) {
        if (bytes == 128ul << mtu) {
            return std::min(static_cast<ibv_mtu>(mtu), largest);
        }
    }
    log_ignored("PATH_MTU", bytes, "256, 512, 1024, 2048 and 4096 are possible");
    return largest;
}

verbs::GidEntry find_gid(ibv_pd* pd, const verbs::Port& port, unsigned long index)
{
    const bool given = index != abi::kAuto;
    std::string reason;
    auto chosen = verbs::choose_gid(pd, port, given ? std::optional(index) : std::nullopt, &reason);
    if (!chosen) {
        if (given) {
            throw UnmetSetting("the port has " + reason + " (UCX_GDR_RC_GID_INDEX)");
        }
        throw std::runtime_error("the port has " + reason);
    }
    return *chosen;
}

// The kernel assigns each queue pair of a bond to a link, and gives each RoCE connection a UDP port
// by which switches choose its path. Like UCX's own transports, a fast port gets two paths, because
// one queue pair does not fill it.
unsigned usual_paths(const verbs::Device& device, const verbs::Port& port, int gid_index)
{
    constexpr double kFast = 400e9 / 8;
    const unsigned links = port.ethernet ? device.sysfs().links(port.number, gid_index) : 1;
    return std::min(kMostPaths, links == 1 && port.bandwidth >= kFast ? 2 : links);
}

verbs::Pkey find_pkey(const verbs::Device& device, const verbs::Port& port, unsigned long partition)
{
    if (port.ethernet) {
        return {0, kDefaultPkey}; // RoCE has no other
    }
    const auto chosen = verbs::choose_pkey(
        device.context(), port, partition != abi::kAuto ? std::optional(partition) : std::nullopt);
    if (!chosen) {
        throw UnmetSetting("the port's table has no partition key that UCX_GDR_RC_PKEY asks for");
    }
    return *chosen;
}

} // namespace

std::string port_name(const verbs::Device& device, const verbs::Port& port)
{
    return device.name() + ":" + std::to_string(port.number);
}

LocalPort look_at(const verbs::Device& device, ibv_pd* pd, const verbs::Port& port,
                  const Settings& settings)
{
    LocalPort local{};
    local.gid = find_gid(pd, port, settings.gid_index);

    verbs::Path& path = local.path;
    path.port = port.number;
    path.service_level = static_cast<uint8_t>(settings.service_level);
    path.traffic_class = static_cast<uint8_t>(settings.traffic_class);
    path.hop_limit = kHopLimit;
    path.gid_index = static_cast<uint8_t>(local.gid.index);
    local.paths = settings.num_paths != abi::kAuto ? static_cast<unsigned>(settings.num_paths)
                                                   : usual_paths(device, port, path.gid_index);
    const verbs::Pkey pkey = find_pkey(device, port, settings.pkey);
    path.pkey_index = pkey.index;

    DeviceAddress& address = local.address;
    address.tag = kAddressTag;
    address.version = kWireVersion;
    address.link = local.gid.type == verbs::GidType::roce_v2   ? Link::roce_v2
                   : local.gid.type == verbs::GidType::roce_v1 ? Link::roce_v1
                                                               : Link::infiniband;
    address.mtu = static_cast<uint8_t>(to_mtu(settings.path_mtu, port.attributes.active_mtu));
    address.lid = port.attributes.lid;
    address.pkey = pkey.value;
    std::memcpy(address.gid, local.gid.gid.raw, sizeof(address.gid));
    address.grh_required = port.grh_required();
    return local;
}

} // namespace gdr::rc
