// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Adding nodes to graphs, by type. A node's arguments are looked at when it is added.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/graph.hpp"
#include "emu/softcuda/library.hpp"
#include "emu/softcuda/module.hpp"
#include "emu/softcuda/softcuda.h"
#include "emu/softcuda/work.hpp"

namespace softcuda {

namespace {

/// What all these functions have in common.
struct Place {
    CUgraphNode* node;
    CUgraph graph;
    const CUgraphNode* dependencies;
    size_t count;
};

CUresult add(const Place& place, CUgraphNodeType type, Operations operations)
{
    require(place.node != nullptr);
    auto lock = lock_graphs();
    CUgraph graph = live_graph(place.graph);
    *place.node = add_node(graph, type, std::move(operations),
                           nodes_of(graph, place.dependencies, place.count));
    return CUDA_SUCCESS;
}

CUresult add(const Place& place, Operation operation)
{
    const CUgraphNodeType type = operation.type;
    Operations one;
    one.push_back(std::move(operation));
    return add(place, type, std::move(one));
}

CUresult add_empty(const Place& place)
{
    return add(place, CU_GRAPH_NODE_TYPE_EMPTY, {});
}

CUresult add_graph(const Place& place, CUgraph child)
{
    require(place.node != nullptr);
    auto lock = lock_graphs();
    CUgraph graph = live_graph(place.graph);
    *place.node =
        add_child(graph, *live_graph(child), nodes_of(graph, place.dependencies, place.count));
    return CUDA_SUCCESS;
}

CUresult add_memcpy(const Place& place, const CUDA_MEMCPY3D* copy, CUcontext context)
{
    require(copy != nullptr);
    return add(place, copy_3d(*copy, live_context(context)->device));
}

CUresult add_memset(const Place& place, const CUDA_MEMSET_NODE_PARAMS* memset, CUcontext context)
{
    require(memset != nullptr);
    return add(place, memset_2d(*memset, live_context(context)->device));
}

template <typename Parameters>
CUresult add_batch(const Place& place, const Parameters* batch)
{
    require(batch != nullptr);
    return add(place, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
               memory_operations(batch->paramArray, batch->count, batch->flags,
                                 live_context(batch->ctx)->device));
}

/// Parameters: of any version; since CUDA 12 a library's kernel may be named, in its own place.
template <typename Parameters>
LoadedKernel kernel_named_by(const Parameters& of)
{
    if constexpr (requires { of.kern; }) {
        if (of.func == nullptr) {
            return launched_kernel(reinterpret_cast<CUfunction>(of.kern), of.ctx);
        }
    }
    return loaded_kernel(of.func);
}

template <typename Parameters>
CUresult add_kernel(const Place& place, const Parameters* of)
{
    require(of != nullptr);
    const softcuda_launch how{{of->gridDimX, of->gridDimY, of->gridDimZ},
                              {of->blockDimX, of->blockDimY, of->blockDimZ},
                              of->sharedMemBytes,
                              0};
    return add(place, launch_of(kernel_named_by(*of), how, of->kernelParams, of->extra));
}

CUresult add_event_record(const Place& place, CUevent event)
{
    require_event(event);
    return add(place, event_record(event));
}

CUresult add_event_wait(const Place& place, CUevent event)
{
    require_event(event);
    return add(place, event_wait(event));
}

// CUgraphNodeParams came with CUDA 12.2.
#if CUDA_VERSION >= 12020
using NodeParameters = CUgraphNodeParams;

/// Since CUDA 12.9 a graph may be moved, not cloned.
template <typename Parameters>
void require_cloning(const Parameters& parameters)
{
    if constexpr (requires { parameters.ownership; }) {
        require(static_cast<int>(parameters.ownership) == 0, CUDA_ERROR_NOT_SUPPORTED);
    }
}

CUresult add_any(const Place& place, const NodeParameters* parameters)
{
    require(parameters != nullptr);
    switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return add_empty(place);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return add_kernel(place, &parameters->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return add_memcpy(place, &parameters->memcpy.copyParams, parameters->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        const auto& of = parameters->memset;
        const CUDA_MEMSET_NODE_PARAMS plain{of.dst,         of.pitch, of.value,
                                            of.elementSize, of.width, of.height};
        return add_memset(place, &plain, of.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        return add(place, host_function(parameters->host.fn, parameters->host.userData));
    case CU_GRAPH_NODE_TYPE_GRAPH:
        require_cloning(parameters->graph);
        return add_graph(place, parameters->graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return add_event_wait(place, parameters->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return add_event_record(place, parameters->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return add_batch(place, &parameters->memOp);
    default:
        throw Error{CUDA_ERROR_NOT_SUPPORTED};
    }
}
#else
using NodeParameters = void;

CUresult add_any(const Place&, const NodeParameters*)
{
    throw Error{CUDA_ERROR_NOT_SUPPORTED};
}
#endif

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count)
{
    return api(__func__, Needs::init, [&] {
        return add_empty({node, graph, dependencies, count});
    });
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* host)
{
    return api(__func__, Needs::init, [&] {
        require(host != nullptr);
        return add({node, graph, dependencies, count}, host_function(host->fn, host->userData));
    });
}

// Since CUDA 12 the structure is a longer one.
#if CUDA_VERSION >= 12000
using KernelParameters = CUDA_KERNEL_NODE_PARAMS_v1;
using LongKernelParameters = CUDA_KERNEL_NODE_PARAMS_v2;
#else
using KernelParameters = CUDA_KERNEL_NODE_PARAMS;
using LongKernelParameters = CUDA_KERNEL_NODE_PARAMS;
#endif

#undef cuGraphAddKernelNode
SOFTCUDA_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* dependencies, size_t count,
                                              const KernelParameters* parameters)
{
    return api(__func__, Needs::init, [&] {
        return add_kernel({node, graph, dependencies, count}, parameters);
    });
}

SOFTCUDA_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph,
                                                 const CUgraphNode* dependencies, size_t count,
                                                 const LongKernelParameters* parameters)
{
    return api(__func__, Needs::init, [&] {
        return add_kernel({node, graph, dependencies, count}, parameters);
    });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* copy, CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        return add_memcpy({node, graph, dependencies, count}, copy, context);
    });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* memset,
                              CUcontext context)
{
    return api(__func__, Needs::init, [&] {
        return add_memset({node, graph, dependencies, count}, memset, context);
    });
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* batch)
{
    return api(__func__, Needs::init, [&] {
        return add_batch({node, graph, dependencies, count}, batch);
    });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies, size_t count, CUevent event)
{
    return api(__func__, Needs::init, [&] {
        return add_event_record({node, graph, dependencies, count}, event);
    });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event)
{
    return api(__func__, Needs::init, [&] {
        return add_event_wait({node, graph, dependencies, count}, event);
    });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child)
{
    return api(__func__, Needs::init, [&] {
        return add_graph({node, graph, dependencies, count}, child);
    });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* child)
{
    return api(__func__, Needs::init, [&] {
        require(child != nullptr);
        auto lock = lock_graphs();
        require(live_node(node)->child != nullptr);
        *child = node->child.get();
    });
}

#undef cuGraphAddNode
SOFTCUDA_EXPORT CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, size_t count,
                                        NodeParameters* parameters)
{
    return api(__func__, Needs::init, [&] {
        return add_any({node, graph, dependencies, count}, parameters);
    });
}

SOFTCUDA_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies, const EdgeData* edges,
                                           size_t count, NodeParameters* parameters)
{
    return api(__func__, Needs::init, [&] {
        require_ordinary(edges, count);
        return add_any({node, graph, dependencies, count}, parameters);
    });
}
