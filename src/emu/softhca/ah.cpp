// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Address handles.
#include "emu/softhca/config.hpp"
#include "emu/softhca/device.hpp"
#include "emu/softhca/faults.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"

#include <cstring>
#include <mutex>
#include <unordered_set>

#include <arpa/inet.h>

namespace softhca {
namespace {

// The way back along the route of a datagram, and the GID it was for: from a GRH, or from an IPv4
// header in the last 20 bytes of that area.
ibv_gid read_route(const ibv_grh& grh, bool ethernet, ibv_global_route& back)
{
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&grh);
    back.hop_limit = 0xff;
    if (ethernet && bytes[0] >> 4 != 6) {
        ibv_gid destination = {};
        back.dgid.raw[10] = back.dgid.raw[11] = destination.raw[10] = destination.raw[11] = 0xff;
        back.traffic_class = bytes[20 + 1];
        std::memcpy(back.dgid.raw + 12, bytes + 20 + 12, 4);
        std::memcpy(destination.raw + 12, bytes + 20 + 16, 4);
        return destination;
    }
    const std::uint32_t first = ntohl(grh.version_tclass_flow);
    back.flow_label = first & 0xfffff;
    back.traffic_class = static_cast<std::uint8_t>(first >> 20);
    back.dgid = grh.sgid;
    return grh.dgid;
}

std::mutex handles_mutex;
std::unordered_set<std::uint64_t> handles;

} // namespace

bool is_valid_address(const Context& context, const ibv_ah_attr& attributes)
{
    if (!context.has_port(attributes.port_num)) {
        return false;
    }
    const Profile& profile = profile_of(context.device_of(attributes.port_num));
    const bool must_be_global = profile.ethernet || profile.grh_required;
    return (attributes.is_global || !must_be_global) &&
           (!attributes.is_global || attributes.grh.sgid_index < kGids);
}

bool is_address_handle(std::uint64_t address)
{
    const std::lock_guard<std::mutex> guard(handles_mutex);
    return handles.count(address) != 0;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes)
{
    const Context& context = context_of(pd->context);
    const AddressHandles handled = profile_of(context.device).address_handles;
    if (handled != AddressHandles::made) {
        errno = handled == AddressHandles::refused ? EOPNOTSUPP : 0;
        return nullptr;
    }
    if (is_stale(pd->context) || !is_valid_address(context, *attributes)) {
        errno = EINVAL;
        return nullptr;
    }
    if (const int error = resolve(context.device_of(attributes->port_num), *attributes)) {
        errno = error;
        return nullptr;
    }
    Ah* ah = new (std::nothrow) Ah{{pd->context, pd, 0}, *attributes};
    if (ah == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    {
        const std::lock_guard<std::mutex> guard(handles_mutex);
        handles.insert(reinterpret_cast<std::uint64_t>(ah));
    }
    object_of<Pd>(pd).children.fetch_add(1);
    return &ah->base;
}

int destroy_ah(ibv_ah* ah)
{
    object_of<Pd>(ah->pd).children.fetch_sub(1);
    {
        const std::lock_guard<std::mutex> guard(handles_mutex);
        handles.erase(reinterpret_cast<std::uint64_t>(ah));
    }
    delete &object_of<Ah>(ah);
    return 0;
}

int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes)
{
    const Context& own_context = context_of(context);
    if (!own_context.has_port(port)) {
        errno = EINVAL;
        return -1;
    }
    const unsigned device = own_context.device_of(port);
    const bool ethernet = profile_of(device).ethernet;
    *attributes = {};
    attributes->dlid = wc->slid;
    attributes->sl = ethernet ? 0 : wc->sl;
    attributes->src_path_bits = wc->dlid_path_bits;
    attributes->port_num = port;
    if ((wc->wc_flags & IBV_WC_GRH) == 0) {
        return 0;
    }
    const ibv_gid destination = read_route(*grh, ethernet, attributes->grh);
    attributes->is_global = 1;
    for (unsigned index = 0; index < kGids; ++index) {
        const ibv_gid own = port_gid(device, index);
        if (std::memcmp(&own, &destination, sizeof own) == 0) {
            attributes->grh.sgid_index = static_cast<std::uint8_t>(index);
            return 0;
        }
    }
    errno = EINVAL;
    return -1;
}

ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port)
{
    ibv_ah_attr attributes;
    if (init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) {
        return nullptr;
    }
    return create_ah(pd, &attributes);
}

} // namespace softhca
