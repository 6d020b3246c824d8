// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// softcuda: graphs and user objects. To be run on NVIDIA's driver as well.
#include "softcuda_graph_fixture.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

class SoftcudaGraph : public SoftcudaGraphs {
  protected:
    // cuGraphAddDependencies and its opposite have had one argument more since CUDA 13.
    static CUresult add_dependency(CUgraph graph, CUgraphNode from, CUgraphNode to)
    {
#if CUDA_VERSION >= 13000
        return cuGraphAddDependencies(graph, &from, &to, nullptr, 1);
#else
        return cuGraphAddDependencies(graph, &from, &to, 1);
#endif
    }
    static CUresult remove_dependency(CUgraph graph, CUgraphNode from, CUgraphNode to)
    {
#if CUDA_VERSION >= 13000
        return cuGraphRemoveDependencies(graph, &from, &to, nullptr, 1);
#else
        return cuGraphRemoveDependencies(graph, &from, &to, 1);
#endif
    }
};

void CUDA_CB count_call(void* counter)
{
    ++*static_cast<std::atomic<int>*>(counter);
}

} // namespace

TEST_F(SoftcudaGraph, TellsItsShape)
{
    CUgraph graph = new_graph();
    CUgraphNode first = add_empty(graph);
    CUgraphNode second = add_memset(graph, memory_, 1, 16, {first});
    CUgraphNode third = add_copy(graph, memory_ + 64, memory_, 16, {first});
    CUgraphNode last = add_host(graph, count_call, nullptr, {second, third});
    EXPECT_EQ(nodes_of(graph).size(), 4u);
    EXPECT_EQ(type_of(first), CU_GRAPH_NODE_TYPE_EMPTY);
    EXPECT_EQ(type_of(second), CU_GRAPH_NODE_TYPE_MEMSET);
    EXPECT_EQ(type_of(third), CU_GRAPH_NODE_TYPE_MEMCPY);
    EXPECT_EQ(type_of(last), CU_GRAPH_NODE_TYPE_HOST);
    EXPECT_EQ(dependencies_of(last), (Nodes{second, third}));
    size_t count = 0;
    CUgraphNode roots[2] = {};
    EXPECT_CUDA(cuGraphGetRootNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 1u);
    count = 2;
    EXPECT_CUDA(cuGraphGetRootNodes(graph, roots, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(roots[0], first);
#if CUDA_VERSION >= 13000
    EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
#else
    EXPECT_CUDA(cuGraphGetEdges(graph, nullptr, nullptr, &count));
#endif
    EXPECT_EQ(count, 4u);

    EXPECT_EQ(add_dependency(graph, first, second), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(add_dependency(graph, second, third));
    EXPECT_CUDA(remove_dependency(graph, second, third));
    EXPECT_EQ(remove_dependency(graph, second, third), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode node = nullptr;
    const CUgraphNode twice[] = {first, first};
    EXPECT_EQ(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuGraphDestroyNode(third));
    EXPECT_EQ(dependencies_of(last), Nodes{second});
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaGraph, RunsNodesBehindTheirDependencies)
{
    CUgraph graph = new_graph();
    CUgraphNode last = add_copy(graph, memory_ + 128, memory_ + 64, 16);
    CUgraphNode middle = add_copy(graph, memory_ + 64, memory_, 16);
    CUgraphNode first = add_memset(graph, memory_, 7, 16);
    EXPECT_CUDA(add_dependency(graph, middle, last));
    EXPECT_CUDA(add_dependency(graph, first, middle));
    CUgraphExec executable = instantiate(graph);
    EXPECT_EQ(contents(memory_, 1), std::vector<unsigned char>(1, 0));
    launch_and_wait(executable);
    EXPECT_EQ(contents(memory_ + 128, 16), std::vector<unsigned char>(16, 7));
    EXPECT_CUDA(cuMemsetD8(memory_, 0, 256));
    launch_and_wait(executable);
    EXPECT_EQ(contents(memory_ + 128, 16), std::vector<unsigned char>(16, 7));
    EXPECT_CUDA(cuGraphExecDestroy(executable));
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaGraph, MemsetsAndCopiesOfSeveralRows)
{
    CUgraph graph = new_graph();
    CUDA_MEMSET_NODE_PARAMS fill{memory_, 64, 0x01020304, 4, 2, 3};
    CUgraphNode set = nullptr, copied = nullptr;
    ASSERT_CUDA(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &fill, context_));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = memory_;
    copy.srcPitch = 64;
    copy.srcHeight = 3;
    copy.srcY = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = words_;
    copy.dstPitch = 8;
    copy.dstHeight = 2;
    copy.WidthInBytes = 8;
    copy.Height = 2;
    copy.Depth = 1;
    ASSERT_CUDA(cuGraphAddMemcpyNode(&copied, graph, &set, 1, &copy, context_));
    CUgraphExec executable = instantiate(graph);
    launch_and_wait(executable);
    EXPECT_EQ(load(0), 0x0102030401020304u);
    EXPECT_EQ(load(1), 0x0102030401020304u);
    EXPECT_EQ(load(2), 0u);
    fill.elementSize = 3;
    EXPECT_EQ(cuGraphAddMemsetNode(&set, graph, nullptr, 0, &fill, context_),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(SoftcudaGraph, RefusesACycle)
{
    CUgraph graph = new_graph();
    CUgraphNode first = add_empty(graph), second = add_empty(graph, {first});
    if (add_dependency(graph, second, first) == CUDA_SUCCESS) {
        CUgraphExec executable = nullptr;
        EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_INVALID_VALUE);
    }
    EXPECT_CUDA(cuGraphDestroy(graph));
}

TEST_F(SoftcudaGraph, ACloneIsAGraphOfItsOwn)
{
    CUgraph graph = new_graph(), copy = nullptr;
    CUgraphNode first = add_memset(graph, memory_, 3, 16);
    CUgraphNode second = add_copy(graph, memory_ + 64, memory_, 16, {first});
    ASSERT_CUDA(cuGraphClone(&copy, graph));
    CUgraphNode found = nullptr;
    EXPECT_CUDA(cuGraphNodeFindInClone(&found, second, copy));
    EXPECT_EQ(type_of(found), CU_GRAPH_NODE_TYPE_MEMCPY);
    ASSERT_EQ(dependencies_of(found).size(), 1u);
    EXPECT_EQ(type_of(dependencies_of(found).front()), CU_GRAPH_NODE_TYPE_MEMSET);
    CUgraphNode later = add_empty(graph);
    EXPECT_EQ(cuGraphNodeFindInClone(&found, later, copy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuGraphDestroy(graph));
    CUgraphExec executable = instantiate(copy);
    EXPECT_CUDA(cuGraphDestroy(copy));
    launch_and_wait(executable);
    EXPECT_EQ(contents(memory_ + 64, 16), std::vector<unsigned char>(16, 3));
    EXPECT_CUDA(cuGraphExecDestroy(executable));
}

TEST_F(SoftcudaGraph, ChildGraphsRunInTheirPlace)
{
    CUgraph child = new_graph(), graph = new_graph();
    CUgraphNode in_child = add_copy(child, memory_ + 64, memory_, 16);
    add_copy(child, memory_ + 128, memory_ + 64, 16, {in_child});
    CUgraphNode first = add_memset(graph, memory_, 9, 16), node = nullptr;
    ASSERT_CUDA(cuGraphAddChildGraphNode(&node, graph, &first, 1, child));
    add_copy(graph, memory_ + 192, memory_ + 128, 16, {node});
    add_memset(child, memory_ + 128, 1, 16); // not in the clone that the node has
    EXPECT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
    CUgraph embedded = nullptr;
    EXPECT_CUDA(cuGraphChildGraphNodeGetGraph(node, &embedded));
    EXPECT_EQ(nodes_of(embedded).size(), 2u);
    EXPECT_CUDA(cuGraphDestroy(child));
    CUgraphExec executable = instantiate(graph);
    launch_and_wait(executable);
    EXPECT_EQ(contents(memory_ + 192, 16), std::vector<unsigned char>(16, 9));
}

#if CUDA_VERSION >= 13000
TEST_F(SoftcudaGraph, NodesAddedByTheirType)
{
    CUgraph graph = new_graph();
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEMSET;
    p.memset.dst = memory_;
    p.memset.value = 5;
    p.memset.elementSize = 1;
    p.memset.width = 16;
    p.memset.height = 1;
    p.memset.ctx = context_;
    CUgraphNode set = nullptr, batch = nullptr, host = nullptr;
    ASSERT_CUDA(cuGraphAddNode(&set, graph, nullptr, nullptr, 0, &p));
    auto operation = write(0, 6);
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    p.memOp.ctx = context_;
    p.memOp.count = 1;
    p.memOp.paramArray = &operation;
    ASSERT_CUDA(cuGraphAddNode(&batch, graph, &set, nullptr, 1, &p));
    std::atomic<int> calls{0};
    p = {};
    p.type = CU_GRAPH_NODE_TYPE_HOST;
    p.host.fn = count_call;
    p.host.userData = &calls;
    ASSERT_CUDA(cuGraphAddNode(&host, graph, &batch, nullptr, 1, &p));
    CUgraphExec executable = instantiate(graph);
    launch_and_wait(executable);
    EXPECT_EQ(contents(memory_, 16), std::vector<unsigned char>(16, 5));
    EXPECT_EQ(load(0), 6u);
    EXPECT_EQ(calls, 1);
}
#endif

// What one rank of a triggered exchange is: a node triggers, a proxy answers, a node waits.
TEST_F(SoftcudaGraph, TenThousandLaunchesBackToBack)
{
    constexpr int kLaunches = 10000;
    CUgraph graph = new_graph();
    CUgraphNode trigger = add_batch(graph, {wait(0, 0), write(0, 1)});
    EXPECT_EQ(type_of(trigger), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    add_batch(graph, {wait(1, 1), write(1, 0)}, {trigger});
    CUgraphExec executable = instantiate(graph);
    std::atomic<int> answered{0};
    std::thread proxy([&] {
        while (answered < kLaunches && eventually([&] { return load(0) == 1; })) {
            ++answered;
            store(0, 0);
            store(1, 1);
            if (!eventually([&] { return load(1) == 0; })) {
                break;
            }
        }
    });
    for (int i = 0; i < kLaunches; ++i) {
        ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    }
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    proxy.join();
    EXPECT_EQ(answered, kLaunches);
    EXPECT_EQ(load(0), 0u);
    EXPECT_EQ(load(1), 0u);
}

TEST_F(SoftcudaGraph, BranchesWaitForWordsByThemselves)
{
    // No more than a GPU has hardware queues; the last one is released first.
    const int branches = emulated() ? 64 : 6;
    CUgraph graph = new_graph();
    Nodes ends;
    for (int i = 0; i < branches; ++i) {
        CUgraphNode waiting = add_batch(graph, {wait(i, 1)});
        ends.push_back(add_batch(graph, {write(100 + i, 1)}, {waiting}));
    }
    add_batch(graph, {write(200, 1)}, ends);
    CUgraphExec executable = instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    for (int i = branches - 1; i >= 0; --i) {
        EXPECT_EQ(load(200), 0u);
        EXPECT_EQ(load(100 + i), 0u);
        store(i, 1);
        ASSERT_TRUE(eventually([&] { return load(100 + i) == 1; })) << i;
    }
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(200), 1u);
}

TEST_F(SoftcudaGraph, AHostFunctionThatWaitsStopsNoOtherBranch)
{
    CUgraph graph = new_graph();
    CUgraphNode host = add_host(
        graph,
        [](void* words) {
            auto* word = static_cast<uint64_t*>(words);
            eventually([&] { return std::atomic_ref(*word).load() == 1; });
            std::atomic_ref(word[1]).store(1);
        },
        words_);
    add_batch(graph, {write(2, 1)}, {host});
    add_batch(graph, {write(0, 1)});
    CUgraphExec executable = instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    EXPECT_TRUE(eventually([&] { return load(2) == 1; })); // nobody calls CUDA meanwhile
    EXPECT_EQ(load(1), 1u);
    EXPECT_CUDA(cuStreamSynchronize(stream_));
}

TEST_F(SoftcudaGraph, LaunchesOfOneExecutableFollowOneAnother)
{
    CUgraph graph = new_graph();
    add_batch(graph, {write(0, 1)}); // two branches
    add_batch(graph, {wait(1, 1), write(1, 0)});
    CUgraphExec executable = instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    ASSERT_CUDA(cuGraphLaunch(executable, other_));
    for (int launch = 0; launch < 2; ++launch) {
        ASSERT_TRUE(eventually([&] { return load(0) == 1; }));
        store(0, 0);
        a_while();
        EXPECT_EQ(load(0), 0u) << "the second launch runs while the first does";
        store(1, 1);
    }
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_CUDA(cuStreamSynchronize(other_));
}

TEST_F(SoftcudaGraph, ALaunchIsInTheOrderOfItsStream)
{
    CUgraph graph = new_graph();
    add_copy(graph, memory_ + 64, memory_, 16);
    CUgraphExec executable = instantiate(graph);
    EXPECT_CUDA(cuStreamWaitValue64(stream_, address_of(words_), 1, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CUDA(cuMemsetD8Async(memory_, 4, 16, stream_));
    EXPECT_CUDA(cuGraphLaunch(executable, stream_));
    EXPECT_CUDA(cuMemcpyDtoHAsync(words_ + 1, memory_ + 64, 8, stream_));
    a_while();
    EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(load(1), 0u);
    store(0, 1);
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_EQ(load(1), 0x0404040404040404u);
}

TEST_F(SoftcudaGraph, EventsAreRecordedAndWaitedForByNodes)
{
    CUevent begun = nullptr, ended = nullptr, gate = nullptr;
    for (CUevent* event : {&begun, &ended, &gate}) {
        ASSERT_CUDA(cuEventCreate(event, CU_EVENT_DISABLE_TIMING));
    }
    CUgraph graph = new_graph();
    CUgraphNode first = nullptr, second = nullptr, last = nullptr;
    ASSERT_CUDA(cuGraphAddEventRecordNode(&first, graph, nullptr, 0, begun));
    ASSERT_CUDA(cuGraphAddEventWaitNode(&second, graph, &first, 1, gate));
    ASSERT_CUDA(cuGraphAddEventRecordNode(&last, graph, &second, 1, ended));
    EXPECT_EQ(type_of(first), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    EXPECT_EQ(type_of(second), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    CUgraphExec executable = instantiate(graph);
    for (uint64_t launch = 1; launch <= 2; ++launch) {
        EXPECT_CUDA(
            cuStreamWaitValue64(other_, address_of(words_), launch, CU_STREAM_WAIT_VALUE_GEQ));
        EXPECT_CUDA(cuEventRecord(gate, other_));
        EXPECT_CUDA(cuGraphLaunch(executable, stream_));
        EXPECT_TRUE(eventually([&] { return cuEventQuery(begun) == CUDA_SUCCESS; }));
        a_while();
        EXPECT_EQ(cuEventQuery(ended), CUDA_ERROR_NOT_READY);
        store(0, launch);
        EXPECT_CUDA(cuEventSynchronize(ended));
    }
    EXPECT_CUDA(cuStreamSynchronize(stream_));
}

TEST_F(SoftcudaGraph, RunsOnWhenItsHandlesAreGone)
{
    CUgraph graph = new_graph();
    CUgraphNode waiting = add_batch(graph, {wait(0, 1)});
    add_batch(graph, {write(1, 1)}, {waiting});
    CUgraphExec executable = instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    ASSERT_CUDA(cuGraphLaunch(executable, other_));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_CUDA(cuGraphExecDestroy(executable));
    if (emulated()) { // others may crash
        EXPECT_EQ(cuGraphLaunch(executable, stream_), CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    }
    store(0, 1);
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_CUDA(cuStreamSynchronize(other_));
    EXPECT_EQ(load(1), 1u);
}

TEST_F(SoftcudaGraph, AnExecutableIsNotChangedByItsGraph)
{
    CUgraph graph = new_graph();
    CUgraphNode first = add_batch(graph, {write(0, 1)});
    CUgraphExec executable = instantiate(graph);
    add_batch(graph, {write(0, 2)}, {first});
    launch_and_wait(executable);
    EXPECT_EQ(load(0), 1u);
}

// softcuda refuses where the real driver would change the executable.
TEST_F(SoftcudaGraph, UpdatesAreRefused)
{
    if (!emulated()) {
        GTEST_SKIP() << "the real driver updates";
    }
    CUgraph graph = new_graph();
    add_empty(graph);
    CUgraphExec executable = instantiate(graph);
#if CUDA_VERSION >= 12000
    CUgraphExecUpdateResultInfo info{};
    EXPECT_EQ(cuGraphExecUpdate(executable, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
#endif
    CUDA_HOST_NODE_PARAMS p{count_call, nullptr};
    EXPECT_EQ(cuGraphExecHostNodeSetParams(executable, nodes_of(graph).front(), &p),
              CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(SoftcudaGraph, EntryPointsByVersion)
{
    void *old = nullptr, *flags = nullptr, *now = nullptr;
    ASSERT_CUDA(find_entry_point("cuGraphInstantiate", &old, 11000));
    ASSERT_CUDA(find_entry_point("cuGraphInstantiate", &now, 12000));
    ASSERT_CUDA(find_entry_point("cuGraphInstantiateWithFlags", &flags, 12000));
    if (emulated()) { // real drivers have entries of their own for the program that asks
        EXPECT_NE(old, now);
        EXPECT_EQ(now, flags);
    }
    ASSERT_CUDA(find_entry_point("cuGraphGetEdges", &old, 12000));
    ASSERT_CUDA(find_entry_point("cuGraphGetEdges", &now, 12030));
    EXPECT_NE(old, now);
    CUgraph graph = new_graph();
    add_empty(graph, {add_empty(graph)});
    size_t count = 0;
    auto edges = reinterpret_cast<CUresult (*)(CUgraph, CUgraphNode*, CUgraphNode*, size_t*)>(old);
    EXPECT_CUDA(edges(graph, nullptr, nullptr, &count));
    EXPECT_EQ(count, 1u);
}

// ---- user objects

TEST_F(SoftcudaGraph, AUserObjectLivesAsLongAsItsLastLaunch)
{
    std::atomic<int> destroyed{0};
    CUuserObject object = nullptr;
    ASSERT_CUDA(
        cuUserObjectCreate(&object, &destroyed, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CUgraph graph = new_graph();
    add_batch(graph, {wait(0, 1)});
    EXPECT_CUDA(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CUgraphExec executable = instantiate(graph);
    ASSERT_CUDA(cuGraphLaunch(executable, stream_));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_CUDA(cuGraphExecDestroy(executable));
    a_while();
    EXPECT_EQ(destroyed, 0);
    store(0, 1);
    EXPECT_CUDA(cuStreamSynchronize(stream_));
    EXPECT_TRUE(eventually([&] { return destroyed == 1; }));
}

TEST_F(SoftcudaGraph, CountsReferencesToUserObjects)
{
    std::atomic<int> destroyed{0};
    CUuserObject object = nullptr;
    EXPECT_EQ(
        cuUserObjectCreate(&object, nullptr, count_call, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuUserObjectCreate(&object, nullptr, count_call, 1, 0), CUDA_ERROR_INVALID_VALUE);
    ASSERT_CUDA(
        cuUserObjectCreate(&object, &destroyed, count_call, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    EXPECT_CUDA(cuUserObjectRetain(object, 1));
    EXPECT_CUDA(cuUserObjectRelease(object, 2)); // one is left
    CUgraph graph = new_graph(), copy = nullptr;
    EXPECT_CUDA(cuGraphRetainUserObject(graph, object, 2, 0));
    EXPECT_CUDA(cuUserObjectRelease(object, 1));
    EXPECT_CUDA(cuGraphReleaseUserObject(graph, object, 1));
    EXPECT_CUDA(cuGraphClone(&copy, graph));
    EXPECT_CUDA(cuGraphDestroy(graph));
    a_while();
    EXPECT_EQ(destroyed, 0);
    EXPECT_CUDA(cuGraphDestroy(copy));
    EXPECT_TRUE(eventually([&] { return destroyed == 1; }));
}

// ---- random graphs against a sequential reference

namespace {

constexpr size_t kSlot = 32; // bytes that each node writes, and no other one does
constexpr int kNodes = 40;

unsigned seed()
{
    const char* text = std::getenv("SOFTCUDA_GRAPH_SEED");
    const auto first =
        text != nullptr ? static_cast<unsigned>(std::atoll(text)) : std::random_device{}();
    std::printf("SOFTCUDA_GRAPH_SEED=%u\n", first);
    std::fflush(stdout);
    return first;
}

} // namespace

TEST_F(SoftcudaGraph, RandomGraphsDoWhatTheirNodesInOrderDo)
{
    const unsigned first_seed = seed();
    CUdeviceptr slots = allocate(kNodes * kSlot);
    const auto slot = [&](int i) { return slots + static_cast<size_t>(i) * kSlot; };
    for (unsigned round = 0; round < 20; ++round) {
        SCOPED_TRACE(testing::Message() << "SOFTCUDA_GRAPH_SEED=" << first_seed + round);
        std::mt19937 random(first_seed + round);
        const auto below = [&](int n) { return static_cast<int>(random() % unsigned(n)); };
        CUgraph graph = new_graph();
        Nodes nodes;
        std::vector<unsigned char> expected; // a slot's bytes
        std::vector<uint64_t> expected_words;
        for (int i = 0; i < kNodes; ++i) {
            Nodes after;
            std::vector<int> before;
            for (int j = 0; j < i; ++j) {
                if (below(i) < 2) {
                    before.push_back(j);
                    after.push_back(nodes[static_cast<size_t>(j)]);
                }
            }
            const int source = before.empty() ? -1 : before[size_t(below(int(before.size())))];
            const auto value = static_cast<unsigned char>(1 + below(255));
            expected.push_back(0);
            expected_words.push_back(0);
            switch (below(5)) {
            case 0:
                nodes.push_back(add_memset(graph, slot(i), value, kSlot, after));
                expected.back() = value;
                break;
            case 1:
                if (source >= 0) {
                    nodes.push_back(add_copy(graph, slot(i), slot(source), kSlot, after));
                    expected.back() = expected[size_t(source)];
                    break;
                }
                [[fallthrough]];
            case 2:
                nodes.push_back(add_empty(graph, after));
                break;
            case 3: { // sees the word of a dependency at once
                std::vector<CUstreamBatchMemOpParams> batch{write(i, 1), write(i, value)};
                if (source >= 0) {
                    batch.insert(batch.begin() + 1, wait(source, expected_words[size_t(source)]));
                }
                nodes.push_back(add_batch(graph, batch, after));
                expected_words.back() = value;
                break;
            }
            default: {
                CUgraph child = new_graph();
                CUgraphNode set = add_memset(child, slot(i), value, kSlot);
                add_batch(child, {write(i, value)}, below(2) == 0 ? Nodes{set} : Nodes{});
                CUgraphNode node = nullptr;
                EXPECT_CUDA(
                    cuGraphAddChildGraphNode(&node, graph, after.data(), after.size(), child));
                EXPECT_CUDA(cuGraphDestroy(child));
                nodes.push_back(node);
                expected.back() = value;
                expected_words.back() = value;
            }
            }
        }
        CUgraphExec executable = instantiate(graph);
        EXPECT_CUDA(cuGraphDestroy(graph));
        for (int launch = 0; launch < 3; ++launch) {
            EXPECT_CUDA(cuMemsetD8(slots, 0, kNodes * kSlot));
            EXPECT_CUDA(cuCtxSynchronize());
            std::fill_n(words_, kNodes, 0);
            EXPECT_CUDA(cuGraphLaunch(executable, launch % 2 == 0 ? stream_ : other_));
            EXPECT_CUDA(cuCtxSynchronize());
            for (int i = 0; i < kNodes; ++i) {
                EXPECT_EQ(contents(slot(i), kSlot),
                          std::vector<unsigned char>(kSlot, expected[size_t(i)]))
                    << "node " << i;
                EXPECT_EQ(load(i), expected_words[size_t(i)]) << "node " << i;
            }
        }
        EXPECT_CUDA(cuGraphExecDestroy(executable));
        if (HasFailure()) {
            break;
        }
    }
}

// The same work given to streams that wait for each other's events, run and captured.
TEST_F(SoftcudaGraph, RandomCapturesDoWhatTheirStreamsDo)
{
    constexpr int kStreams = 4;
    const unsigned first_seed = seed();
    CUdeviceptr slots = allocate(kNodes * kSlot);
    const auto slot = [&](int i) { return slots + static_cast<size_t>(i) * kSlot; };
    CUstream streams[kStreams] = {stream_, other_};
    CUevent event = nullptr;
    ASSERT_CUDA(cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuStreamCreate(&streams[3], CU_STREAM_NON_BLOCKING));
    ASSERT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    const auto follow = [&](int stream, int leader) {
        EXPECT_CUDA(cuEventRecord(event, streams[leader]));
        EXPECT_CUDA(cuStreamWaitEvent(streams[stream], event, 0));
    };
    for (unsigned round = 0; round < 20; ++round) {
        SCOPED_TRACE(testing::Message() << "SOFTCUDA_GRAPH_SEED=" << first_seed + round);
        std::vector<unsigned char> expected;
        const auto issue = [&] {
            std::mt19937 random(first_seed + round);
            const auto below = [&](int n) { return static_cast<int>(random() % unsigned(n)); };
            expected.clear();
            std::vector<int> stream_of;
            for (int s = 1; s < kStreams; ++s) {
                follow(s, 0);
            }
            for (int i = 0; i < kNodes; ++i) {
                const int stream = below(kStreams), source = i > 0 ? below(i) : -1;
                const auto value = static_cast<unsigned char>(1 + below(255));
                stream_of.push_back(stream);
                if (source < 0 || below(3) == 0) {
                    EXPECT_CUDA(cuMemsetD8Async(slot(i), value, kSlot, streams[stream]));
                    expected.push_back(value);
                } else {
                    if (stream_of[size_t(source)] != stream) {
                        follow(stream, stream_of[size_t(source)]);
                    }
                    EXPECT_CUDA(cuMemcpyDtoDAsync(slot(i), slot(source), kSlot, streams[stream]));
                    expected.push_back(expected[size_t(source)]);
                }
            }
            for (int s = 1; s < kStreams; ++s) {
                follow(0, s);
            }
        };
        const auto check = [&](const char* how) {
            EXPECT_CUDA(cuStreamSynchronize(stream_));
            for (int i = 0; i < kNodes; ++i) {
                EXPECT_EQ(contents(slot(i), kSlot),
                          std::vector<unsigned char>(kSlot, expected[size_t(i)]))
                    << how << ", operation " << i;
            }
            EXPECT_CUDA(cuMemsetD8(slots, 0, kNodes * kSlot));
            EXPECT_CUDA(cuCtxSynchronize());
        };
        issue();
        check("run");
        CUgraph graph = nullptr;
        ASSERT_CUDA(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        issue();
        ASSERT_CUDA(cuStreamEndCapture(stream_, &graph));
        EXPECT_EQ(nodes_of(graph).size(), size_t{kNodes});
        EXPECT_EQ(contents(slots, kSlot), std::vector<unsigned char>(kSlot, 0));
        CUgraphExec executable = instantiate(graph);
        EXPECT_CUDA(cuGraphLaunch(executable, stream_));
        check("captured");
        EXPECT_CUDA(cuGraphExecDestroy(executable));
        EXPECT_CUDA(cuGraphDestroy(graph));
        if (HasFailure()) {
            break;
        }
    }
}
