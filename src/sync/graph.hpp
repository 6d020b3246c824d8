// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Nodes in CUDA graphs: where a capture is, and the calls of CUDA that add to a graph.
#pragma once

#include "sync/node.hpp"

namespace gdr::sync {

// Where something is added to a graph.
struct Place {
    CUgraph graph = nullptr;
    std::vector<CUgraphNode> dependencies{};
    CUcontext context = nullptr;    // that memory operations run in
    unsigned long long capture = 0; // under way; 0: none, the graph is the application's
    CUstream handle = nullptr;      // that is being captured
};

bool is_captured(const cuda::Driver& driver, CUstream handle);

// Where the capture of such a stream is. Throws Refusal for an invalidated one, cuda::Error.
Place captured_place(const cuda::Driver& driver, CUstream handle);

// The nodes of CUDA's that a node of ours has become: the same one twice where it triggers and
// waits in one, nullptr for what it does not.
struct GraphNodes {
    CUgraphNode trigger = nullptr;
    CUgraphNode done = nullptr;
};

// Adds a node that the engine has got already, and has the graph hold it: it ends with the graph
// and all its executables and clones, or where this throws. A capture goes on behind it. Throws
// Refusal, cuda::Error.
GraphNodes add_to_graph(const cuda::Driver& driver, const Place& place, Node& node);

} // namespace gdr::sync
