// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "direct/hca.hpp"

#include "verbs/error.hpp"
#include "verbs/gid.hpp"
#include "verbs/pkey.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace gdr::direct {
namespace {

constexpr uint8_t kHopLimit = 64;

verbs::ProtectionDomain allocate_pd(const verbs::Device& device)
{
    verbs::ProtectionDomain pd(ibv_alloc_pd(device.context()));
    if (!pd) {
        throw verbs::Error("ibv_alloc_pd on " + device.name(), errno);
    }
    return pd;
}

const verbs::Port& active_port(const verbs::Device& device)
{
    const auto active = std::ranges::find_if(device.ports(), &verbs::Port::active);
    if (active == device.ports().end()) {
        throw std::runtime_error(device.name() + " has no active port");
    }
    if (!active->ethernet && device.sysfs().manages_switches()) {
        throw std::runtime_error(device.name() + " leads to the NVSwitches of this machine");
    }
    return *active;
}

// Registers a word, as which an HCA shows that it has relaxed ordering alone: its writes may
// overtake each other on the bus.
bool orders_writes(ibv_pd* pd)
{
    uint64_t word = 0;
    const verbs::MemoryRegion tried =
        verbs::register_memory(pd, IBV_ACCESS_LOCAL_WRITE, [&](int access) {
            return ibv_reg_mr(pd, &word, sizeof(word), access);
        });
    return tried && !verbs::has_relaxed_ordering_alone(pd);
}

uint8_t at_most_255(int value)
{
    return static_cast<uint8_t>(std::clamp(value, 0, 255));
}

} // namespace

Hca::Hca(const std::string& name)
    : device_(name), pd_(allocate_pd(device_)), registrar_(device_, pd_.get()),
      port_(&active_port(device_))
{
    if (!orders_writes(pd_.get())) {
        throw std::runtime_error(name + " has relaxed ordering alone, by which a signal could "
                                        "overtake its data");
    }
    std::string reason;
    const auto gid = verbs::choose_gid(pd_.get(), *port_, std::nullopt, &reason);
    if (!gid) {
        throw std::runtime_error(name + " has " + reason);
    }
    path_.port = port_->number;
    path_.gid_index = static_cast<uint8_t>(gid->index);
    path_.hop_limit = kHopLimit;
    if (!port_->ethernet) {
        const auto pkey = verbs::choose_pkey(device_.context(), *port_, std::nullopt);
        if (!pkey) {
            throw std::runtime_error(name + " has no partition key (is a subnet manager running?)");
        }
        path_.pkey_index = pkey->index;
    }
    address_.link = static_cast<uint8_t>(gid->type);
    address_.mtu = static_cast<uint8_t>(port_->attributes.active_mtu);
    address_.lid = port_->attributes.lid;
    std::memcpy(address_.gid, gid->gid.raw, sizeof(address_.gid));
    address_.grh_required = port_->ethernet || port_->grh_required();
    address_.atomics = device_.attributes().atomic_cap != IBV_ATOMIC_NONE;
    address_.max_dest_rd_atomic = at_most_255(device_.attributes().max_qp_rd_atom);
}

verbs::Destination Hca::destination(const PortAddress& peer) const
{
    verbs::Destination destination{};
    destination.lid = peer.lid;
    std::memcpy(destination.gid.raw, peer.gid, sizeof(peer.gid));
    const bool same_subnet =
        std::memcmp(address_.gid, peer.gid, sizeof(ibv_gid::global.subnet_prefix)) == 0;
    destination.global = address_.grh_required != 0 || peer.grh_required != 0 || !same_subnet;
    return destination;
}

verbs::MemoryRegion Hca::register_memory(uintptr_t address, size_t length)
{
    mem::Target target = registrar_.describe(address, length, mem::Access::remote);
    if (target.kind == mem::MemoryKind::device) {
        target = mem::Registrar::narrowed(target, address, length);
    }
    mem::Failure failure;
    mem::Registration made = registrar_.register_memory(target, &failure);
    if (!made) {
        throw std::runtime_error(failure.cause);
    }
    if (target.read_only) {
        throw std::runtime_error("the memory is read-only, and peers could not write to it");
    }
    return std::move(made.mr);
}

} // namespace gdr::direct
