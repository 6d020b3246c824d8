// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What tests of captures and graphs have in common. They use the driver API alone, so that the
// same program runs on NVIDIA's driver: what softcuda has to do is what passes there.
#pragma once

#include "softcuda_fixture.hpp"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

class SoftcudaGraphs : public Softcuda {
  protected:
    using Nodes = std::vector<CUgraphNode>;

    void SetUp() override
    {
        Softcuda::SetUp();
        ASSERT_CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        ASSERT_CUDA(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
        ASSERT_CUDA(cuMemHostAlloc(reinterpret_cast<void**>(&words_), 4096, 0));
        std::fill_n(words_, 4096 / sizeof(*words_), 0);
        memory_ = allocate(4096);
        EXPECT_CUDA(cuMemsetD8(memory_, 0, 4096));
    }

    static bool emulated() { return dlsym(RTLD_DEFAULT, "softcuda_calls") != nullptr; }

    uint64_t load(int word) const { return std::atomic_ref(words_[word]).load(); }
    void store(int word, uint64_t value) { std::atomic_ref(words_[word]).store(value); }

    static bool eventually(const std::function<bool()>& condition)
    {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > end) {
                return false;
            }
            std::this_thread::yield();
        }
        return true;
    }

    // Long enough for what must not happen to happen.
    static void a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

    CUstreamBatchMemOpParams write(int word, uint64_t value)
    {
        CUstreamBatchMemOpParams p{};
        p.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        p.writeValue.address = address_of(words_ + word);
        p.writeValue.value64 = value;
        return p;
    }
    CUstreamBatchMemOpParams wait(int word, uint64_t value)
    {
        CUstreamBatchMemOpParams p{};
        p.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        p.waitValue.address = address_of(words_ + word);
        p.waitValue.value64 = value;
        p.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
        return p;
    }

    CUgraph new_graph()
    {
        CUgraph graph = nullptr;
        EXPECT_CUDA(cuGraphCreate(&graph, 0));
        return graph;
    }
    CUgraphNode add_empty(CUgraph graph, const Nodes& after = {})
    {
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddEmptyNode(&node, graph, after.data(), after.size()));
        return node;
    }
    CUgraphNode add_memset(CUgraph graph, CUdeviceptr where, unsigned value, size_t size,
                           const Nodes& after = {})
    {
        CUDA_MEMSET_NODE_PARAMS p{};
        p.dst = where;
        p.value = value;
        p.elementSize = 1;
        p.width = size;
        p.height = 1;
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &p, context_));
        return node;
    }
    CUgraphNode add_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, size_t size,
                         const Nodes& after = {})
    {
        CUDA_MEMCPY3D p{};
        p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        p.srcDevice = from;
        p.dstDevice = to;
        p.WidthInBytes = size;
        p.Height = p.Depth = 1;
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddMemcpyNode(&node, graph, after.data(), after.size(), &p, context_));
        return node;
    }
    CUgraphNode add_batch(CUgraph graph, std::vector<CUstreamBatchMemOpParams> batch,
                          const Nodes& after = {})
    {
        CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
        p.ctx = context_;
        p.count = static_cast<unsigned>(batch.size());
        p.paramArray = batch.data();
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddBatchMemOpNode(&node, graph, after.data(), after.size(), &p));
        return node;
    }
    CUgraphNode add_host(CUgraph graph, CUhostFn function, void* argument, const Nodes& after = {})
    {
        const CUDA_HOST_NODE_PARAMS p{function, argument};
        CUgraphNode node = nullptr;
        EXPECT_CUDA(cuGraphAddHostNode(&node, graph, after.data(), after.size(), &p));
        return node;
    }

    CUgraphExec instantiate(CUgraph graph)
    {
        CUgraphExec executable = nullptr;
        EXPECT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
        return executable;
    }
    void launch_and_wait(CUgraphExec executable)
    {
        EXPECT_CUDA(cuGraphLaunch(executable, stream_));
        EXPECT_CUDA(cuStreamSynchronize(stream_));
    }

    static CUgraphNodeType type_of(CUgraphNode node)
    {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
        EXPECT_CUDA(cuGraphNodeGetType(node, &type));
        return type;
    }
    static Nodes nodes_of(CUgraph graph)
    {
        size_t count = 0;
        EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &count));
        Nodes nodes(count);
        EXPECT_CUDA(cuGraphGetNodes(graph, nodes.data(), &count));
        return nodes;
    }
    static Nodes dependencies_of(CUgraphNode node)
    {
        size_t count = 0;
#if CUDA_VERSION >= 13000
        EXPECT_CUDA(cuGraphNodeGetDependencies(node, nullptr, nullptr, &count));
        Nodes nodes(count);
        EXPECT_CUDA(cuGraphNodeGetDependencies(node, nodes.data(), nullptr, &count));
#else
        EXPECT_CUDA(cuGraphNodeGetDependencies(node, nullptr, &count));
        Nodes nodes(count);
        EXPECT_CUDA(cuGraphNodeGetDependencies(node, nodes.data(), &count));
#endif
        return nodes;
    }

    CUstream stream_ = nullptr;
    CUstream other_ = nullptr;
    uint64_t* words_ = nullptr;
    CUdeviceptr memory_ = 0;
};
