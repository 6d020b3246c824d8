// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/network/ucp_access.hpp"

#include "sync/ucx/refusal.hpp"

namespace gdr::sync {

void UcpAccess::require(ucs_status_t status, const char* function) const
{
    if (status != UCS_OK) {
        throw Refusal(status, std::string(function) + ": " + ucx().ucs_status_string(status));
    }
}

std::vector<uint8_t> UcpAccess::worker_address()
{
    std::vector<uint8_t> copy;
    engine_.call([&] {
        const ucp_worker_h worker = engine_.settings().worker;
        ucp_address_t* address = nullptr;
        size_t length = 0;
        require(ucx().ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
        const auto* const bytes = reinterpret_cast<const uint8_t*>(address);
        copy.assign(bytes, bytes + length);
        ucx().ucp_worker_release_address(worker, address);
    });
    return copy;
}

UcpAccess::Mapped UcpAccess::map(void* address, size_t length)
{
    Mapped mapped;
    engine_.call([&] {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = address;
        params.length = length;
        require(ucx().ucp_mem_map(context_, &params, &mapped.handle), "ucp_mem_map");
        void* packed = nullptr;
        size_t size = 0;
        const ucs_status_t status = ucx().ucp_rkey_pack(context_, mapped.handle, &packed, &size);
        if (status != UCS_OK) {
            ucx().ucp_mem_unmap(context_, mapped.handle);
        }
        require(status, "ucp_rkey_pack");
        mapped.rkey.assign(static_cast<uint8_t*>(packed), static_cast<uint8_t*>(packed) + size);
        ucx().ucp_rkey_buffer_release(packed);
    });
    return mapped;
}

void UcpAccess::unmap(ucp_mem_h memory)
{
    engine_.call([&] { ucx().ucp_mem_unmap(context_, memory); });
}

// The error mode in which a peer's death ends operations.
ucp_ep_h UcpAccess::connect(const void* address)
{
    ucp_ep_h ep = nullptr;
    engine_.call([&] {
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = static_cast<const ucp_address_t*>(address);
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
        require(ucx().ucp_ep_create(engine_.settings().worker, &params, &ep), "ucp_ep_create");
    });
    return ep;
}

void UcpAccess::close(ucp_ep_h ep)
{
    engine_.call([&] {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
        const ucs_status_ptr_t request = ucx().ucp_ep_close_nbx(ep, &param);
        if (!UCS_PTR_IS_PTR(request)) {
            return;
        }
        while (ucx().ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucx().ucp_worker_progress(engine_.settings().worker);
        }
        ucx().ucp_request_free(request);
    });
    engine_.call([] {}); // behind the ends of operations
}

ucp_rkey_h UcpAccess::unpack(ucp_ep_h ep, const void* packed)
{
    ucp_rkey_h rkey = nullptr;
    engine_.call(
        [&] { require(ucx().ucp_ep_rkey_unpack(ep, packed, &rkey), "ucp_ep_rkey_unpack"); });
    return rkey;
}

void UcpAccess::release(ucp_rkey_h rkey)
{
    engine_.call([&] { ucx().ucp_rkey_destroy(rkey); });
}

} // namespace gdr::sync
