// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Graphs: nodes that each hold the operations of one piece of work, and which of them come first.
#pragma once

#include "emu/softcuda/stream.hpp"
#include "emu/softcuda/user_object.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

struct CUgraphNode_st {
    CUgraph graph;
    uint64_t id; // in the process
    CUgraphNodeType type;
    softcuda::Operations operations{}; // one after the other
    std::unique_ptr<CUgraph_st> child{};
    std::vector<CUgraphNode> dependencies{};
    uint64_t cloned_from = 0; // id of the node that this is a clone's of
};

struct CUgraph_st {
    CUgraph_st();
    ~CUgraph_st();
    CUgraph_st(const CUgraph_st&) = delete;
    CUgraph_st& operator=(const CUgraph_st&) = delete;

    bool owned_by_program = true; // not a child's, an executable's, or of a capture under way
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes{}; // in the order in which they came
    softcuda::UserObjectReferences user_objects{};
};

namespace softcuda {

/// Graphs and captures have one lock.
std::unique_lock<std::mutex> lock_graphs();

/// The rest are called with it held, constructors and destructors of graphs too. All throw
/// CUDA_ERROR_INVALID_VALUE for graphs and nodes that are not there, nodes of another graph, and
/// nodes named twice.

CUgraph live_graph(CUgraph graph);
CUgraphNode live_node(CUgraphNode node);
bool lives(CUgraphNode node);

/// Nodes of a graph, as given to a function.
std::vector<CUgraphNode> nodes_of(CUgraph graph, const CUgraphNode* nodes, size_t count);

CUgraphNode add_node(CUgraph graph, CUgraphNodeType type, Operations operations,
                     std::vector<CUgraphNode> dependencies);

/// A node that holds a clone of a graph.
CUgraphNode add_child(CUgraph graph, const CUgraph_st& child,
                      std::vector<CUgraphNode> dependencies);

std::unique_ptr<CUgraph_st> clone(const CUgraph_st& graph);

/// All nodes, each behind those that it depends on; empty with a cycle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph);

/// What goes along with a dependency since CUDA 12.3: zeros, but for kernels.
#if CUDA_VERSION >= 12030
using EdgeData = CUgraphEdgeData;
#else
struct EdgeData {
    unsigned char bytes[8];
};
#endif

/// Refuses all but the ordinary one.
void require_ordinary(const EdgeData* edges, size_t count);

} // namespace softcuda
