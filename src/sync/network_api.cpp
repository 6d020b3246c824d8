// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The functions of ugdr.h for peers and memories.
#include "sync/guarded.hpp"

#include <iterator>

using namespace gdr::sync;

namespace {

constexpr unsigned kChannels = 4, kMostChannels = 64;

template <typename Body>
ucs_status_t guarded(Network& network, Body&& body)
{
    return guarded(network.ucx(), body);
}

void give(const std::vector<uint8_t>& blob, const void** blob_p, size_t* length_p)
{
    require(blob_p, "blob_p");
    require(length_p, "length_p");
    *blob_p = blob.data();
    *length_p = blob.size();
}

} // namespace

UGDR_EXPORT ucs_status_t ugdr_peer_create(ugdr_context_h context, const ugdr_peer_params_t* params,
                                          ugdr_peer_h* peer_p)
{
    return guarded(context, [&] {
        require(peer_p, "peer_p");
        unsigned channels = kChannels;
        if (params != nullptr) {
            require_known_fields(params->field_mask, UGDR_PEER_PARAM_FIELD_CHANNELS,
                                 "ugdr_peer_params_t");
            if ((params->field_mask & UGDR_PEER_PARAM_FIELD_CHANNELS) != 0) {
                channels = params->channels;
            }
        }
        if (channels == 0 || channels > kMostChannels) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "channels: 1 to " + std::to_string(kMostChannels));
        }
        *peer_p = context->network().add_peer(channels);
    });
}

UGDR_EXPORT ucs_status_t ugdr_peer_export(ugdr_peer_h peer, const void** blob_p, size_t* length_p)
{
    return peer == nullptr
               ? UCS_ERR_INVALID_PARAM
               : guarded(peer->network(), [&] { give(peer->blob(), blob_p, length_p); });
}

UGDR_EXPORT ucs_status_t ugdr_peer_connect(ugdr_peer_h peer, const void* blob, size_t length)
{
    return peer == nullptr
               ? UCS_ERR_INVALID_PARAM
               : guarded(peer->network(), [&] { peer->network().connect(*peer, blob, length); });
}

UGDR_EXPORT ucs_status_t ugdr_peer_test(ugdr_peer_h peer)
{
    return peer == nullptr ? UCS_ERR_INVALID_PARAM : peer->status();
}

UGDR_EXPORT ucs_status_t ugdr_peer_destroy(ugdr_peer_h peer)
{
    return peer == nullptr ? UCS_ERR_INVALID_PARAM
                           : guarded(peer->network(), [&] { peer->network().destroy(peer); });
}

UGDR_EXPORT ucs_status_t ugdr_mem_map(ugdr_context_h context, void* address, size_t length,
                                      ugdr_mem_h* mem_p)
{
    return guarded(context, [&] {
        require(mem_p, "mem_p");
        *mem_p = context->network().map(address, length);
    });
}

UGDR_EXPORT ucs_status_t ugdr_mem_unmap(ugdr_mem_h mem)
{
    return mem == nullptr ? UCS_ERR_INVALID_PARAM
                          : guarded(mem->network, [&] { mem->network.unmap(mem); });
}

UGDR_EXPORT ucs_status_t ugdr_mem_export(ugdr_mem_h mem, const void** blob_p, size_t* length_p)
{
    return mem == nullptr ? UCS_ERR_INVALID_PARAM
                          : guarded(mem->network, [&] { give(mem->blob, blob_p, length_p); });
}

UGDR_EXPORT uint32_t ugdr_mem_id(ugdr_mem_h mem)
{
    return mem != nullptr ? mem->id : 0;
}

UGDR_EXPORT ucs_status_t ugdr_rmem_import(ugdr_peer_h peer, const void* blob, size_t length,
                                          ugdr_rmem_h* rmem_p)
{
    return peer == nullptr ? UCS_ERR_INVALID_PARAM : guarded(peer->network(), [&] {
        require(rmem_p, "rmem_p");
        *rmem_p = peer->network().import(*peer, blob, length);
    });
}

UGDR_EXPORT ucs_status_t ugdr_rmem_release(ugdr_rmem_h rmem)
{
    return rmem == nullptr
               ? UCS_ERR_INVALID_PARAM
               : guarded(rmem->peer.network(), [&] { rmem->peer.network().release(rmem); });
}

UGDR_EXPORT uint32_t ugdr_rmem_id(ugdr_rmem_h rmem)
{
    return rmem != nullptr ? rmem->id : 0;
}

// Each member hears of twice as many after each step.
UGDR_EXPORT ucs_status_t ugdr_team_handle(ugdr_mem_h signals, const ugdr_rmem_h* remote_signals,
                                          unsigned rank, unsigned size, ugdr_dev_team_t* handle_p)
{
    return signals == nullptr ? UCS_ERR_INVALID_PARAM : guarded(signals->network, [&] {
        require(handle_p, "handle_p");
        if (rank >= size || size > 1u << std::size(handle_p->peers)) {
            throw Refusal(UCS_ERR_INVALID_PARAM, "ugdr_team_handle: rank and size contradict "
                                                 "each other, or there are more than 65536");
        }
        if (signals->length < UGDR_TEAM_WORDS * sizeof(uint64_t)) {
            throw Refusal(UCS_ERR_INVALID_PARAM,
                          "ugdr_team_handle: the memory has fewer than UGDR_TEAM_WORDS words");
        }
        ugdr_dev_team_t handle{};
        handle.words = reinterpret_cast<unsigned long long*>(signals->address);
        for (unsigned distance = 1; distance < size; distance *= 2) {
            require(remote_signals, "remote_signals");
            const ugdr_rmem_h peer = remote_signals[(rank + distance) % size];
            require(peer, "remote_signals of a rank");
            handle.peers[handle.steps++] = peer->id;
        }
        *handle_p = handle;
    });
}
