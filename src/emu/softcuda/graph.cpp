// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Graphs as such: nodes, dependencies, clones.
#include "emu/softcuda/graph.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace softcuda {

namespace {

struct Graphs {
    std::mutex mutex;
    std::set<CUgraph> all;
    std::set<CUgraphNode> nodes;
    uint64_t next_node = 1;
};

Graphs& graphs()
{
    static auto& instance = *new Graphs;
    return instance;
}

CUgraphNode append(CUgraph graph, CUgraphNodeType type)
{
    graph->nodes.push_back(
        std::make_unique<CUgraphNode_st>(CUgraphNode_st{graph, graphs().next_node++, type}));
    CUgraphNode node = graph->nodes.back().get();
    graphs().nodes.insert(node);
    return node;
}

std::unique_ptr<CUgraph_st> clone_of_child(const CUgraphNode_st& node)
{
    return node.child != nullptr ? clone(*node.child) : nullptr;
}

bool depends(CUgraphNode node, CUgraphNode on)
{
    const auto& all = node->dependencies;
    return std::find(all.begin(), all.end(), on) != all.end();
}

/// Answers a question for a list, or for its length alone.
template <typename Value>
void give(const std::vector<Value>& all, Value* out, size_t* count)
{
    require(count != nullptr);
    if (out != nullptr) {
        const size_t given = std::min(all.size(), *count);
        std::fill(std::copy_n(all.begin(), given, out), out + *count, Value{});
        *count = given;
    } else {
        *count = all.size();
    }
}

void give_edges(size_t number, EdgeData* out, const size_t* count)
{
    if (out != nullptr) {
        std::memset(out, 0, std::min(number, *count) * sizeof(*out));
    }
}

/// A list of nodes, with the data of the edges to them.
void give_nodes(const std::vector<CUgraphNode>& all, CUgraphNode* out, EdgeData* edges,
                size_t* count)
{
    require(count != nullptr && (out != nullptr || edges == nullptr));
    give_edges(all.size(), edges, count);
    give(all, out, count);
}

CUresult get_edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, EdgeData* data, size_t* count)
{
    auto lock = lock_graphs();
    require(count != nullptr && (from == nullptr) == (to == nullptr));
    require(from != nullptr || data == nullptr);
    std::vector<CUgraphNode> starts, ends;
    for (const auto& node : live_graph(graph)->nodes) {
        for (CUgraphNode dependency : node->dependencies) {
            starts.push_back(dependency);
            ends.push_back(node.get());
        }
    }
    size_t length = *count;
    give_edges(starts.size(), data, &length);
    give(starts, from, &length);
    give(ends, to, count);
    return CUDA_SUCCESS;
}

CUresult get_dependencies(CUgraphNode node, CUgraphNode* out, EdgeData* data, size_t* count)
{
    auto lock = lock_graphs();
    give_nodes(live_node(node)->dependencies, out, data, count);
    return CUDA_SUCCESS;
}

CUresult get_dependents(CUgraphNode node, CUgraphNode* out, EdgeData* data, size_t* count)
{
    auto lock = lock_graphs();
    std::vector<CUgraphNode> all;
    for (const auto& other : live_node(node)->graph->nodes) {
        if (depends(other.get(), node)) {
            all.push_back(other.get());
        }
    }
    give_nodes(all, out, data, count);
    return CUDA_SUCCESS;
}

/// Calls `change` with each dependency, after a look at all of them; false of `allowed` is an
/// error.
template <typename Allowed, typename Change>
CUresult for_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                          const EdgeData* data, size_t count, Allowed&& allowed, Change&& change)
{
    auto lock = lock_graphs();
    live_graph(graph);
    require(count == 0 || (from != nullptr && to != nullptr));
    require_ordinary(data, count);
    std::set<std::pair<CUgraphNode, CUgraphNode>> edges;
    for (size_t i = 0; i < count; ++i) {
        require(live_node(from[i])->graph == graph && live_node(to[i])->graph == graph);
        require(from[i] != to[i] && allowed(to[i], from[i]));
        require(edges.emplace(from[i], to[i]).second);
    }
    for (size_t i = 0; i < count; ++i) {
        change(to[i]->dependencies, from[i]);
    }
    return CUDA_SUCCESS;
}

CUresult add_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                          const EdgeData* data, size_t count)
{
    return for_dependencies(
        graph, from, to, data, count,
        [](CUgraphNode node, CUgraphNode on) { return !depends(node, on); },
        [](std::vector<CUgraphNode>& all, CUgraphNode one) { all.push_back(one); });
}

CUresult remove_dependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                             const EdgeData* data, size_t count)
{
    return for_dependencies(
        graph, from, to, data, count, depends,
        [](std::vector<CUgraphNode>& all, CUgraphNode one) { std::erase(all, one); });
}

} // namespace

std::unique_lock<std::mutex> lock_graphs()
{
    return std::unique_lock(graphs().mutex);
}

CUgraph live_graph(CUgraph graph)
{
    require(graphs().all.contains(graph));
    return graph;
}

bool lives(CUgraphNode node)
{
    return graphs().nodes.contains(node);
}

CUgraphNode live_node(CUgraphNode node)
{
    require(lives(node));
    return node;
}

std::vector<CUgraphNode> nodes_of(CUgraph graph, const CUgraphNode* nodes, size_t count)
{
    require(count == 0 || nodes != nullptr);
    std::vector<CUgraphNode> all(nodes, nodes + count);
    for (CUgraphNode node : all) {
        require(live_node(node)->graph == graph);
    }
    require(std::set(all.begin(), all.end()).size() == count);
    return all;
}

CUgraphNode add_node(CUgraph graph, CUgraphNodeType type, Operations operations,
                     std::vector<CUgraphNode> dependencies)
{
    CUgraphNode node = append(graph, type);
    node->operations = std::move(operations);
    node->dependencies = std::move(dependencies);
    return node;
}

CUgraphNode add_child(CUgraph graph, const CUgraph_st& child, std::vector<CUgraphNode> dependencies)
{
    auto own = clone(child);
    CUgraphNode node =
        add_node(graph, CU_GRAPH_NODE_TYPE_GRAPH, Operations{}, std::move(dependencies));
    node->child = std::move(own);
    return node;
}

std::unique_ptr<CUgraph_st> clone(const CUgraph_st& graph)
{
    auto copy = std::make_unique<CUgraph_st>();
    copy->owned_by_program = false;
    copy->user_objects.retain(graph.user_objects);
    std::map<CUgraphNode, CUgraphNode> copies;
    for (const auto& node : graph.nodes) {
        CUgraphNode own = append(copy.get(), node->type);
        own->operations = node->operations;
        own->child = clone_of_child(*node);
        own->cloned_from = node->id;
        copies[node.get()] = own;
    }
    for (const auto& node : graph.nodes) {
        for (CUgraphNode dependency : node->dependencies) {
            copies[node.get()]->dependencies.push_back(copies[dependency]);
        }
    }
    return copy;
}

std::vector<CUgraphNode> in_order(const CUgraph_st& graph)
{
    std::map<CUgraphNode, size_t> missing;
    std::map<CUgraphNode, std::vector<CUgraphNode>> dependents;
    std::vector<CUgraphNode> order;
    for (const auto& node : graph.nodes) {
        missing[node.get()] = node->dependencies.size();
        for (CUgraphNode dependency : node->dependencies) {
            dependents[dependency].push_back(node.get());
        }
        if (node->dependencies.empty()) {
            order.push_back(node.get());
        }
    }
    for (size_t next = 0; next < order.size(); ++next) {
        for (CUgraphNode dependent : dependents[order[next]]) {
            if (--missing[dependent] == 0) {
                order.push_back(dependent);
            }
        }
    }
    return order.size() == graph.nodes.size() ? order : std::vector<CUgraphNode>{};
}

void require_ordinary(const EdgeData* edges, size_t count)
{
    constexpr EdgeData kOrdinary{};
    for (size_t i = 0; edges != nullptr && i < count; ++i) {
        require(std::memcmp(edges + i, &kOrdinary, sizeof(kOrdinary)) == 0,
                CUDA_ERROR_NOT_SUPPORTED);
    }
}

} // namespace softcuda

using namespace softcuda;

CUgraph_st::CUgraph_st()
{
    graphs().all.insert(this);
}

CUgraph_st::~CUgraph_st()
{
    graphs().all.erase(this);
    for (const auto& node : nodes) {
        graphs().nodes.erase(node.get());
    }
}

// ---- graphs

CUresult cuGraphCreate(CUgraph* graph, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        require(graph != nullptr && flags == 0);
        auto lock = lock_graphs();
        *graph = std::make_unique<CUgraph_st>().release();
    });
}

CUresult cuGraphDestroy(CUgraph graph)
{
    return api(__func__, Needs::init, [&] {
        auto lock = lock_graphs();
        require(live_graph(graph)->owned_by_program);
        delete graph;
    });
}

CUresult cuGraphClone(CUgraph* copy, CUgraph original)
{
    return api(__func__, Needs::init, [&] {
        require(copy != nullptr);
        auto lock = lock_graphs();
        *copy = clone(*live_graph(original)).release();
        (*copy)->owned_by_program = true;
    });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph copy)
{
    return api(__func__, Needs::init, [&] {
        require(node != nullptr);
        auto lock = lock_graphs();
        const uint64_t id = live_node(original)->id;
        const auto& nodes = live_graph(copy)->nodes;
        auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const auto& other) { return other->cloned_from == id; });
        require(found != nodes.end());
        *node = found->get();
    });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        require((flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) == 0);
        auto lock = lock_graphs();
        live_graph(graph)->user_objects.retain(object, count, flags != 0);
    });
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count)
{
    return api(__func__, Needs::init, [&] {
        auto lock = lock_graphs();
        live_graph(graph)->user_objects.release(object, count);
    });
}

// ---- nodes

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count)
{
    return api(__func__, Needs::init, [&] {
        auto lock = lock_graphs();
        std::vector<CUgraphNode> all;
        for (const auto& node : live_graph(graph)->nodes) {
            all.push_back(node.get());
        }
        give(all, nodes, count);
    });
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count)
{
    return api(__func__, Needs::init, [&] {
        auto lock = lock_graphs();
        std::vector<CUgraphNode> all;
        for (const auto& node : live_graph(graph)->nodes) {
            if (node->dependencies.empty()) {
                all.push_back(node.get());
            }
        }
        give(all, nodes, count);
    });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type)
{
    return api(__func__, Needs::init, [&] {
        require(type != nullptr);
        auto lock = lock_graphs();
        *type = live_node(node)->type;
    });
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    return api(__func__, Needs::init, [&] {
        auto lock = lock_graphs();
        CUgraph graph = live_node(node)->graph;
        for (const auto& other : graph->nodes) {
            std::erase(other->dependencies, node);
        }
        graphs().nodes.erase(node);
        std::erase_if(graph->nodes, [&](const auto& other) { return other.get() == node; });
    });
}

// ---- dependencies: since CUDA 12.3 with data of the edges

#undef cuGraphGetEdges
SOFTCUDA_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                         size_t* count)
{
    return api(__func__, Needs::init, [&] { return get_edges(graph, from, to, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                            EdgeData* data, size_t* count)
{
    return api(__func__, Needs::init, [&] { return get_edges(graph, from, to, data, count); });
}

#undef cuGraphNodeGetDependencies
SOFTCUDA_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies,
                                                    size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return get_dependencies(node, dependencies, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies,
                                                       EdgeData* data, size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return get_dependencies(node, dependencies, data, count); });
}

#undef cuGraphNodeGetDependentNodes
SOFTCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents,
                                                      size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return get_dependents(node, dependents, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents,
                                                         EdgeData* data, size_t* count)
{
    return api(__func__, Needs::init,
               [&] { return get_dependents(node, dependents, data, count); });
}

#undef cuGraphAddDependencies
SOFTCUDA_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                                const CUgraphNode* to, size_t count)
{
    return api(__func__, Needs::init,
               [&] { return add_dependencies(graph, from, to, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                   const CUgraphNode* to, const EdgeData* data,
                                                   size_t count)
{
    return api(__func__, Needs::init,
               [&] { return add_dependencies(graph, from, to, data, count); });
}

#undef cuGraphRemoveDependencies
SOFTCUDA_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                                   const CUgraphNode* to, size_t count)
{
    return api(__func__, Needs::init,
               [&] { return remove_dependencies(graph, from, to, nullptr, count); });
}

SOFTCUDA_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                      const CUgraphNode* to, const EdgeData* data,
                                                      size_t count)
{
    return api(__func__, Needs::init,
               [&] { return remove_dependencies(graph, from, to, data, count); });
}
