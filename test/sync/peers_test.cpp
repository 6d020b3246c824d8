// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Peers and memories by the public interface. What goes between them is direct_test's.
#include "fixture.hpp"

#include <cstring>

namespace synctest {
namespace {

struct Blob {
    const void* data = nullptr;
    size_t length = 0;
};

class Peers : public Sides {
  protected:
    static Blob blob_of(ugdr_peer_h peer)
    {
        Blob blob;
        EXPECT_UCS(ugdr_peer_export(peer, &blob.data, &blob.length));
        return blob;
    }
    static Blob blob_of(ugdr_mem_h memory)
    {
        Blob blob;
        EXPECT_UCS(ugdr_mem_export(memory, &blob.data, &blob.length));
        return blob;
    }
    static void connect(ugdr_peer_h peer, ugdr_peer_h other, ucs_status_t expected = UCS_OK)
    {
        const Blob blob = blob_of(other);
        EXPECT_EQ(ugdr_peer_connect(peer, blob.data, blob.length), expected);
    }
    static ugdr_mem_h map(ugdr_context_h context, void* address, size_t length)
    {
        ugdr_mem_h memory = nullptr;
        EXPECT_UCS(ugdr_mem_map(context, address, length, &memory));
        return memory;
    }
};

TEST_F(Peers, FromTheFirstCallToTheLast)
{
    std::vector<char> host(4096);
    char* device = on_gpu<char>(4096);
    ugdr_peer_h at_a = create_peer(at_a_, 2), at_b = create_peer(at_b_, 2);
    EXPECT_EQ(ugdr_peer_test(at_a), UCS_ERR_NOT_CONNECTED);
    connect(at_a, at_b);
    connect(at_b, at_a);
    EXPECT_UCS(ugdr_peer_test(at_a));
    connect(at_a, at_b, UCS_ERR_INVALID_PARAM); // again

    ugdr_mem_h of_host = map(at_b_, host.data(), host.size()), of_gpu = map(at_b_, device, 4096);
    EXPECT_NE(ugdr_mem_id(of_host) & UGDR_MEM_ID_HOST, 0u);
    EXPECT_EQ(ugdr_mem_id(of_gpu) & UGDR_MEM_ID_HOST, 0u);
    EXPECT_NE(ugdr_mem_id(of_gpu), 0u);
    std::vector<ugdr_rmem_h> imported;
    for (ugdr_mem_h memory : {of_host, of_gpu}) {
        const Blob blob = blob_of(memory);
        EXPECT_UCS(ugdr_rmem_import(at_a, blob.data, blob.length, &imported.emplace_back()));
        EXPECT_EQ(ugdr_rmem_import(at_a, blob.data, blob.length - 1, &imported.front()),
                  UCS_ERR_INVALID_PARAM);
    }
    EXPECT_NE(ugdr_rmem_id(imported[0]), ugdr_rmem_id(imported[1]));
    EXPECT_EQ(ugdr_peer_destroy(at_a), UCS_ERR_BUSY);
    for (ugdr_rmem_h memory : imported) {
        EXPECT_UCS(ugdr_rmem_release(memory));
    }
    EXPECT_UCS(ugdr_peer_destroy(at_a));
    EXPECT_UCS(ugdr_peer_destroy(at_b));
    EXPECT_UCS(ugdr_mem_unmap(of_host));
    EXPECT_UCS(ugdr_mem_unmap(of_gpu));
    EXPECT_CUDA(cuMemFree(address_of(device)));
}

// By UCP, too, whose objects a worker has to outlive.
TEST_F(Peers, EndWithTheirContext)
{
    std::vector<char> host(4096);
    for (const uint64_t flags : {uint64_t{0}, uint64_t{UGDR_CONTEXT_FLAG_NO_DIRECT}}) {
        Worker workers[2];
        ugdr_context_h contexts[2];
        ugdr_peer_h peers[2];
        for (int i = 0; i < 2; ++i) {
            ugdr_context_params_t params{};
            params.field_mask = UGDR_CONTEXT_PARAM_FIELD_WORKER |
                                UGDR_CONTEXT_PARAM_FIELD_UCP_CONTEXT |
                                UGDR_CONTEXT_PARAM_FIELD_FLAGS;
            params.worker = workers[i].worker;
            params.ucp_context = workers[i].context;
            params.flags = flags;
            contexts[i] = create(params);
            peers[i] = create_peer(contexts[i], 2);
        }
        connect(peers[0], peers[1]);
        connect(peers[1], peers[0]);
        const Blob blob = blob_of(map(contexts[1], host.data(), host.size()));
        ugdr_rmem_h imported = nullptr;
        EXPECT_UCS(ugdr_rmem_import(peers[0], blob.data, blob.length, &imported));
        std::atomic<bool> stopping{false};
        std::thread application([&] { // closing an endpoint takes both sides
            while (!stopping) {
                ucp_worker_progress(workers[0].worker);
                ucp_worker_progress(workers[1].worker);
            }
        });
        for (ugdr_context_h context : contexts) {
            EXPECT_UCS(ugdr_context_destroy(context, 0));
        }
        stopping = true;
        application.join();
    }
}

TEST_F(Peers, WhatIsNone)
{
    ugdr_peer_h peer = create_peer(at_a_, 2);
    ugdr_mem_h memory = nullptr;
    ugdr_rmem_h imported = nullptr;
    const void* blob = nullptr;
    size_t length = 0;
    char byte = 0;
    EXPECT_EQ(ugdr_peer_create(nullptr, nullptr, &peer), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_create(at_a_, nullptr, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_export(nullptr, &blob, &length), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_export(peer, nullptr, &length), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_connect(peer, nullptr, 100), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_connect(nullptr, &byte, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_connect(peer, &byte, 1), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_test(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_peer_destroy(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_map(nullptr, &byte, 1, &memory), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_map(at_a_, nullptr, 1, &memory), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_map(at_a_, &byte, 0, &memory), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_map(at_a_, &byte, SIZE_MAX, &memory), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_map(at_a_, &byte, 1, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_unmap(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_export(nullptr, &blob, &length), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_mem_id(nullptr), 0u);
    EXPECT_EQ(ugdr_rmem_import(nullptr, &byte, 1, &imported), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_rmem_import(peer, nullptr, 1, &imported), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_rmem_release(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(ugdr_rmem_id(nullptr), 0u);

    ugdr_peer_params_t params{};
    params.field_mask = UGDR_PEER_PARAM_FIELD_CHANNELS;
    for (const unsigned channels : {0u, 65u}) {
        params.channels = channels;
        EXPECT_EQ(ugdr_peer_create(at_a_, &params, &peer), UCS_ERR_INVALID_PARAM);
    }
    params.field_mask = UCS_BIT(20);
    EXPECT_EQ(ugdr_peer_create(at_a_, &params, &peer), UCS_ERR_INVALID_PARAM);
    ugdr_context_params_t context{};
    context.field_mask = UGDR_CONTEXT_PARAM_FIELD_FLAGS;
    context.flags = UCS_BIT(20);
    create(context, UCS_ERR_INVALID_PARAM);
}

} // namespace
} // namespace synctest
