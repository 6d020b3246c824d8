// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A broadcast down a tree of GPUs, as one CUDA graph on each rank: receive from the parent, then
// send to the children. The graph is made once and launched a hundred times. MPI carries the
// addresses and nothing else.
//
//   mpicxx -std=c++20 -O2 -I$CUDA_HOME/include bcast.cpp -o bcast -lucx-gdr -lucp -lucs -ldl
//   mpirun -n 4 ucx-gdr run ./bcast [NUMBERS IN A MESSAGE]
#include "ucp.hpp"

namespace {

constexpr int kRounds = 100;

// A node of the graph, which ends when its operations have.
struct Step {
    ugdr_condition_h condition;
    ugdr_cu_node_t node;
};

Step add_step(ugdr_context_h context, ugdr_cu_graph_t graph, const std::vector<CUgraphNode>& before)
{
    ugdr_condition_params_t params = {};
    params.field_mask = UGDR_CONDITION_PARAM_FIELD_CATEGORY | UGDR_CONDITION_PARAM_FIELD_GRAPH;
    params.category = UGDR_CONDITION_GRAPH;
    params.graph = graph;
    params.dependencies = before.data();
    params.num_dependencies = before.size();
    Step step;
    ucp::check(ugdr_condition_create(context, &params, &step.condition), "ugdr_condition_create");
    ugdr_condition_attr_t attr = {};
    attr.field_mask = UGDR_CONDITION_ATTR_FIELD_NODES;
    ucp::check(ugdr_condition_query(step.condition, &attr), "ugdr_condition_query");
    step.node = attr.done_node;
    return step;
}

ugdr_op_param_t on(const Step& step)
{
    ugdr_op_param_t param = {};
    param.field_mask = UGDR_OP_PARAM_FIELD_CONDITION;
    param.condition = step.condition;
    return param;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const long numbers = argc > 1 ? std::atol(argv[1]) : 1024;
    if (numbers < 1) {
        gpu::fail("usage", "bcast [NUMBERS IN A MESSAGE]");
    }
    gpu::choose();

    const size_t count = static_cast<size_t>(numbers), bytes = count * sizeof(int);
    gpu::Buffer<int> buffer(count);
    ucp_worker_h worker = ucp::create_worker();
    const ucp::Context context(worker);

    CUgraph graph;
    GPU_CALL(cuGraphCreate, &graph, 0u);
    std::vector<CUgraphNode> received;
    if (rank > 0) {
        ucp::connect(worker, (rank - 1) / 2); // the parent connects to us, by the same exchange
        const Step step = add_step(context, graph, {});
        const ugdr_op_param_t param = on(step);
        ucp::check(ugdr_tag_recv(context, buffer.data(), bytes, 1, ~ucp_tag_t{0}, &param, nullptr),
                   "ugdr_tag_recv");
        ucp::check(ugdr_condition_destroy(step.condition), "ugdr_condition_destroy");
        received.push_back(step.node);
    }
    for (int child : {2 * rank + 1, 2 * rank + 2}) {
        if (child >= ranks) {
            continue;
        }
        ucp_ep_h ep = ucp::connect(worker, child);
        const Step step = add_step(context, graph, received);
        const ugdr_op_param_t param = on(step);
        ucp::check(ugdr_tag_send(context, ep, buffer.data(), bytes, 1, &param, nullptr),
                   "ugdr_tag_send");
        ucp::check(ugdr_condition_destroy(step.condition), "ugdr_condition_destroy");
    }
    CUgraphExec executable;
    GPU_CALL(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
    GPU_CALL(cuGraphDestroy, graph);

    CUstream stream;
    GPU_CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    int wrong = 0;
    for (int round = 1; round <= kRounds; ++round) {
        if (rank == 0) {
            GPU_CALL(cuMemsetD32Async, reinterpret_cast<CUdeviceptr>(buffer.data()),
                     static_cast<unsigned>(round), count, stream);
        }
        GPU_CALL(cuGraphLaunch, executable, stream);
        GPU_CALL(cuStreamSynchronize, stream);
        for (int number : buffer.get(count)) {
            wrong += number != round;
        }
    }
    GPU_CALL(cuGraphExecDestroy, executable);
    std::printf("rank %d: %d rounds of %ld numbers, %d wrong\n", rank, kRounds, numbers, wrong);
    MPI_Barrier(MPI_COMM_WORLD); // nobody leaves while others send
    MPI_Finalize();
    return wrong > 0 ? 1 : 0;
}
