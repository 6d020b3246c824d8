// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Nodes in CUDA graphs: where a capture is, and the CUDA calls that add to a graph.
#pragma once

#include "sync/triggers/node.hpp"

namespace gdr::sync {

// Where a node is added to a graph.
struct Place {
    CUgraph graph = nullptr;
    std::vector<CUgraphNode> dependencies{};
    CUcontext context = nullptr;    // for memory operations
    unsigned long long capture = 0; // its id; 0: none, the graph is the application's
    CUstream handle = nullptr;      // the captured stream
};

bool is_captured(const cuda::Driver& driver, CUstream handle);

// The place of a captured stream. Throws Refusal if the capture is invalid, cuda::Error.
Place captured_place(const cuda::Driver& driver, CUstream handle);

// The CUDA nodes of one of our nodes: twice the same if it triggers and waits in one, nullptr for
// what it does not do.
struct GraphNodes {
    CUgraphNode trigger = nullptr;
    CUgraphNode done = nullptr;
};

// Adds a node that the engine already has, and makes the graph hold it. The node ends with the
// graph and all its executables and clones, or when this throws. In a capture, the stream continues
// after the node. Throws Refusal, cuda::Error.
GraphNodes add_to_graph(const cuda::Driver& driver, const Place& place, Node& node);

} // namespace gdr::sync
