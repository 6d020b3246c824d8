// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Executable graphs. The nodes, those of child graphs among them, are dealt to inner streams such
// that in each of them a node depends on the one in front of it: so nothing waits but for its
// dependencies. A launch is two operations of the stream that it is given to: the first, which
// waits for the launch before it to end, fills the inner streams; the second waits for these.
#include "emu/softcuda/capture.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>

namespace softcuda {

namespace {

/// How far an inner stream has got, counted in one launch's operations.
struct Point {
    size_t stream;
    uint64_t operations;
};

struct Step {
    const Operations* operations; // of a node of the executable's own clone; nullptr: none
    std::vector<Point> dependencies{};
    Point end{};
};

struct Executable {
    /// Called with the lock of the graphs held. Throws CUDA_ERROR_INVALID_VALUE for a cycle.
    explicit Executable(const CUgraph_st& source, cuuint64_t instantiate_flags)
        : graph(clone(source)), flags(instantiate_flags)
    {
        add_steps(*graph, {});
    }

    ~Executable()
    {
        auto lock = lock_graphs();
        graph.reset();
    }

    std::unique_ptr<CUgraph_st> graph;
    const cuuint64_t flags;
    std::vector<Step> steps{}; // each behind its dependencies
    std::vector<std::unique_ptr<CUstream_st>> streams{};
    std::vector<uint64_t> lengths{}; // operations of a launch in each of the streams

    std::mutex mutex; // makes launches follow one another as their operations do in a stream
    uint64_t launches = 0;
    std::atomic<uint64_t> ended{0}; // launches

  private:
    using Steps = std::vector<size_t>;

    /// Adds the steps of a graph that comes behind some others; those that nothing of it comes
    /// behind.
    Steps add_steps(const CUgraph_st& of, const Steps& before)
    {
        const std::vector<CUgraphNode> order = in_order(of);
        require(order.size() == of.nodes.size());
        std::map<CUgraphNode, Steps> ends;
        std::set<CUgraphNode> leaves(order.begin(), order.end());
        for (CUgraphNode node : order) {
            Steps dependencies;
            for (CUgraphNode dependency : node->dependencies) {
                const Steps& steps_of = ends[dependency];
                dependencies.insert(dependencies.end(), steps_of.begin(), steps_of.end());
                leaves.erase(dependency);
            }
            if (node->dependencies.empty()) {
                dependencies = before;
            }
            if (node->child == nullptr || node->child->nodes.empty()) {
                ends[node] = {add_step(node->operations, dependencies)};
            } else {
                ends[node] = add_steps(*node->child, dependencies);
            }
        }
        Steps last;
        for (CUgraphNode leaf : leaves) {
            last.insert(last.end(), ends[leaf].begin(), ends[leaf].end());
        }
        return last;
    }

    size_t add_step(const Operations& operations, const Steps& dependencies)
    {
        Step step{&operations};
        std::optional<size_t> stream;
        for (size_t dependency : dependencies) {
            const Point& end = steps[dependency].end;
            if (!stream.has_value() && end.operations == lengths[end.stream]) {
                stream = end.stream; // right behind the dependency
            } else {
                step.dependencies.push_back(end);
            }
        }
        if (!stream.has_value()) {
            stream = streams.size();
            streams.push_back(create_inner_stream());
            lengths.push_back(0);
        }
        // One operation waits for the dependencies, the node's own follow.
        lengths[*stream] += 1 + operations.size();
        step.end = {*stream, lengths[*stream]};
        steps.push_back(std::move(step));
        return steps.size() - 1;
    }
};

/// One launch. It keeps the executable alive until it has ended.
class Launch {
  public:
    Launch(std::shared_ptr<Executable> executable, uint64_t number)
        : executable_(std::move(executable)), number_(number)
    {
        for (const Step& step : executable_->steps) {
            for (const Operation& operation : *step.operations) {
                if (operation.renew) {
                    renewed_.push_back(operation.renew());
                }
            }
        }
    }

    bool may_begin() const { return executable_->ended == number_; }

    void begin()
    {
        std::vector<std::pair<CUstream, Operation>> all;
        auto renewed = renewed_.begin();
        for (const Step& step : executable_->steps) {
            CUstream stream = executable_->streams[step.end.stream].get();
            all.emplace_back(stream, waiting_for(step.dependencies));
            for (const Operation& operation : *step.operations) {
                all.emplace_back(stream, operation.renew ? *renewed++ : operation);
            }
        }
        enqueue_inner(std::move(all));
    }

    /// Asked under the engine's lock.
    bool done() const
    {
        for (size_t i = 0; i < executable_->streams.size(); ++i) {
            if (executable_->streams[i]->completed < (number_ + 1) * executable_->lengths[i]) {
                return false;
            }
        }
        return true;
    }

    void end() { executable_->ended = number_ + 1; }

  private:
    Operation waiting_for(const std::vector<Point>& points) const
    {
        std::vector<std::pair<CUstream, uint64_t>> targets;
        targets.reserve(points.size());
        for (const Point& point : points) {
            targets.emplace_back(executable_->streams[point.stream].get(),
                                 number_ * executable_->lengths[point.stream] + point.operations);
        }
        return {.run = [] {},
                .ready =
                    [targets = std::move(targets)] {
                        return std::all_of(targets.begin(), targets.end(), [](const auto& target) {
                            return target.first->completed >= target.second;
                        });
                    }};
    }

    const std::shared_ptr<Executable> executable_;
    const uint64_t number_; // launches of the executable before it
    Operations renewed_{};  // those that each launch has of its own, in the order of the steps
};

} // namespace

} // namespace softcuda

using namespace softcuda;

struct CUgraphExec_st {
    std::shared_ptr<Executable> executable;
};

namespace softcuda {

namespace {

std::set<CUgraphExec>& executables()
{
    static auto& instance = *new std::set<CUgraphExec>; // under the lock of the graphs
    return instance;
}

std::shared_ptr<Executable> find(CUgraphExec handle)
{
    auto lock = lock_graphs();
    require(executables().contains(handle));
    return handle->executable;
}

CUresult instantiate(CUgraphExec* handle, CUgraph graph, cuuint64_t flags)
{
    constexpr cuuint64_t kWithoutEffect = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                          CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    require(handle != nullptr);
    require((flags & ~kWithoutEffect) == 0,
            (flags & ~cuuint64_t{15}) == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<Executable> executable; // its end takes the lock
    auto lock = lock_graphs();
    executable = std::make_shared<Executable>(*live_graph(graph), flags);
    auto created = std::make_unique<CUgraphExec_st>(CUgraphExec_st{std::move(executable)});
    executables().insert(created.get());
    *handle = created.release();
    return CUDA_SUCCESS;
}

/// With what tells of a node that is at fault; none ever is, by itself.
CUresult instantiate(CUgraphExec* handle, CUgraph graph, CUgraphNode* node, char* log, size_t size)
{
    if (node != nullptr) {
        *node = nullptr;
    }
    if (log != nullptr && size > 0) {
        *log = 0;
    }
    return instantiate(handle, graph, 0);
}

CUresult launch(CUgraphExec handle, CUstream stream_handle)
{
    const auto executable = find(handle);
    CUstream stream = resolve_stream(stream_handle);
    require_not_captured(stream);
    std::lock_guard guard(executable->mutex);
    auto launch = std::make_shared<Launch>(executable, executable->launches);
    Operations both;
    both.push_back(
        {.run = [launch] { launch->begin(); }, .ready = [launch] { return launch->may_begin(); }});
    both.push_back(
        {.run = [launch] { launch->end(); }, .ready = [launch] { return launch->done(); }});
    enqueue(stream, std::move(both));
    ++executable->launches;
    return CUDA_SUCCESS;
}

} // namespace

} // namespace softcuda

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph,
                                     unsigned long long flags)
{
    return api(__func__, Needs::context, [&] { return instantiate(executable, graph, flags); });
}

#undef cuGraphInstantiate
SOFTCUDA_EXPORT CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph,
                                            CUgraphNode* node, char* log, size_t size)
{
    return api(__func__, Needs::context,
               [&] { return instantiate(executable, graph, node, log, size); });
}

SOFTCUDA_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* executable, CUgraph graph,
                                               CUgraphNode* node, char* log, size_t size)
{
    return api(__func__, Needs::context,
               [&] { return instantiate(executable, graph, node, log, size); });
}

CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t* flags)
{
    return api(__func__, Needs::init, [&] {
        require(flags != nullptr);
        *flags = find(executable)->flags;
    });
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    return api(__func__, Needs::init, [&] {
        find(executable);
        require_not_captured(resolve_stream(stream)); // nothing is to be done
    });
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    return api(__func__, Needs::init, [&] { return launch(executable, stream); });
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    return api(__func__, Needs::init, [&] {
        std::unique_ptr<CUgraphExec_st> gone; // its end takes the lock
        auto lock = lock_graphs();
        require(executables().erase(handle) == 1);
        gone.reset(handle);
    });
}

// CUDA_GRAPH_INSTANTIATE_PARAMS and CUgraphExecUpdateResultInfo came with CUDA 12.0.
#if CUDA_VERSION >= 12000
using InstantiateParameters = CUDA_GRAPH_INSTANTIATE_PARAMS;
using UpdateResult = CUgraphExecUpdateResultInfo;
#else
using InstantiateParameters = void;
using UpdateResult = void;
#endif

SOFTCUDA_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph,
                                                      InstantiateParameters* parameters)
{
    return api(__func__, Needs::context, [&] {
#if CUDA_VERSION >= 12000
        require(parameters != nullptr);
        parameters->hErrNode_out = nullptr;
        parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        constexpr cuuint64_t kUpload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        const CUresult result = instantiate(executable, graph, parameters->flags & ~kUpload);
        parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
        return result;
#else
        return CUDA_ERROR_NOT_SUPPORTED;
#endif
    });
}

// An executable graph stays as it is: a program instantiates the changed graph again, as it has to
// where the real driver cannot make a change.

#undef cuGraphExecUpdate
SOFTCUDA_EXPORT CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph, CUgraphNode* node,
                                           CUgraphExecUpdateResult* result)
{
    return api(__func__, Needs::init, [&] {
        find(executable);
        require(node != nullptr && result != nullptr);
        *node = nullptr;
        *result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    });
}

SOFTCUDA_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph, UpdateResult* result)
{
    return api(__func__, Needs::init, [&] {
        find(executable);
        require(result != nullptr);
#if CUDA_VERSION >= 12000
        *result = {CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nullptr, nullptr};
#endif
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    });
}
