// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Commands about address handles. libmlx5 makes its own, and asks for one only on Ethernet, to
// learn the MAC address that a GID stands for.
#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/command.hpp"

#include <cerrno>
#include <cstring>

namespace softmlx5 {

int create_ah(Context& context, Command& command)
{
    const auto request = command.request<ib_uverbs_create_ah>();
    Pd* pd = context.pds.find(request.pd_handle);
    if (pd == nullptr) {
        return EINVAL;
    }
    ibv_ah_attr attributes = {};
    attributes.port_num = request.attr.port_num;
    attributes.is_global = request.attr.is_global;
    attributes.dlid = request.attr.dlid;
    attributes.grh.sgid_index = request.attr.grh.sgid_index;
    std::memcpy(attributes.grh.dgid.raw, request.attr.grh.dgid, sizeof request.attr.grh.dgid);
    ibv_ah* ah = softhca::create_ah(&pd->hca(), &attributes);
    if (ah == nullptr) {
        return errno;
    }
    ib_uverbs_create_ah_resp answer = {};
    answer.ah_handle = context.next_ah++;
    context.ahs.add(answer.ah_handle, std::make_unique<Ah>(*ah));
    command.answer(answer);
    // Frames have no addresses here: one that is the same for the same peer.
    mlx5_ib_create_ah_resp driver = {};
    driver.response_length = sizeof driver;
    constexpr std::size_t kLast = sizeof attributes.grh.dgid.raw - sizeof driver.dmac;
    std::memcpy(driver.dmac, attributes.grh.dgid.raw + kLast, sizeof driver.dmac);
    command.driver_answer(driver);
    return 0;
}

int destroy_ah(Context& context, Command& command)
{
    const auto handle = command.request<ib_uverbs_destroy_ah>().ah_handle;
    if (context.ahs.find(handle) == nullptr) {
        return EINVAL;
    }
    context.ahs.remove(handle);
    return 0;
}

} // namespace softmlx5
