// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "abi/left_out.hpp"

#include "abi/context_settings.hpp"
#include "abi/transport_list.hpp"

namespace gdr::abi {

ucs_status_t LeftOut::reg(void*, size_t, Registration, uct_mem_h*)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t LeftOut::dereg(uct_mem_h, uct_completion_t*)
{
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t LeftOut::pack_rkey(uct_mem_h, const void*, size_t, void*)
{
    return UCS_ERR_UNSUPPORTED;
}

bool is_left_out(uct_md_h md)
{
    return dynamic_cast<LeftOut*>(memory_domain(md)) != nullptr;
}

std::vector<Device> left_out_devices()
{
    if (!excludes_transport(context_setting("TLS").value_or(""), "gdr")) {
        return {};
    }
    return {{"none", UCT_DEVICE_TYPE_ACC, UCS_SYS_DEVICE_ID_UNKNOWN}};
}

} // namespace gdr::abi
