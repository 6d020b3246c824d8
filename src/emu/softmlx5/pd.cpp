// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Protection domains, see pd.hpp.
#include "emu/softmlx5/pd.hpp"

#include "emu/softhca/config.hpp"
#include "emu/softhca/objects.hpp"
#include "emu/softhca/ops.hpp"

#include <cstring>

#include <endian.h>

namespace softmlx5 {
namespace {

// On Ethernet every address has a route, the bit for one is not set, and a UDP port is in the place
// of the LID.
ibv_ah_attr attributes_of(std::uint8_t port, const mlx5_wqe_av& address, bool is_long,
                          bool ethernet)
{
    constexpr std::uint32_t kHasRoute = 1u << 30;
    ibv_ah_attr attributes = {};
    attributes.port_num = port;
    if (ethernet) {
        attributes.sl = address.stat_rate_sl >> 1 & 7;
    } else {
        attributes.dlid = be16toh(address.rlid);
        attributes.sl = address.stat_rate_sl & 0xf;
        attributes.src_path_bits = address.fl_mlid & 0x7f;
    }
    const std::uint32_t route = is_long ? be32toh(address.grh_gid_fl) : 0;
    if ((route & kHasRoute) != 0 || (ethernet && is_long)) {
        attributes.is_global = 1;
        attributes.grh.flow_label = route & 0xfffff;
        attributes.grh.sgid_index = static_cast<std::uint8_t>(route >> 20 & 0xff);
        attributes.grh.hop_limit = address.hop_limit;
        attributes.grh.traffic_class = address.tclass;
        std::memcpy(attributes.grh.dgid.raw, address.rgid, sizeof address.rgid);
    }
    return attributes;
}

} // namespace

Pd::~Pd()
{
    for (const auto& [key, handle] : handles_) {
        softhca::destroy_ah(handle);
    }
    softhca::dealloc_pd(&hca_);
}

bool Pd::is_used() const
{
    return softhca::object_of<softhca::Pd>(&hca_).children.load() > handles_.size();
}

ibv_ah* Pd::address_handle(std::uint8_t port, const mlx5_wqe_av& address, bool is_long)
{
    constexpr std::size_t kWithoutRoute = 4;
    Key key = {port};
    std::memcpy(key.data() + 1,
                reinterpret_cast<const std::uint8_t*>(&address) +
                    offsetof(mlx5_wqe_av, stat_rate_sl),
                is_long ? key.size() - 1 : kWithoutRoute);
    const auto found = handles_.find(key);
    if (found != handles_.end()) {
        return found->second;
    }
    const unsigned device = softhca::context_of(hca_.context).device_of(port);
    ibv_ah_attr attributes =
        attributes_of(port, address, is_long, softhca::profile_of(device).ethernet);
    ibv_ah* handle = softhca::create_ah(&hca_, &attributes);
    if (handle != nullptr) {
        handles_.emplace(key, handle);
    }
    return handle;
}

} // namespace softmlx5
