// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Every operation, on every kind of memory, in every size: it starts when the stream gets there,
// and not before; it moves what the stream wrote last; what comes behind a wait sees the result,
// and may use the buffer again.
#include "fixture.hpp"

#include <numeric>

namespace synctest {
namespace {

enum class Kind { tag, am, put, get, flush };
enum class Space { host, device, managed };

using Case = std::tuple<Kind, Space, size_t>;

constexpr const char* space_names[] = {"host", "device", "managed"};

std::string name_of(const testing::TestParamInfo<Case>& info)
{
    static const char* kinds[] = {"tag", "am", "put", "get", "flush"};
    const auto [kind, space, size] = info.param;
    return std::string(kinds[static_cast<int>(kind)]) + "_" + space_names[static_cast<int>(space)] +
           "_" + std::to_string(size);
}

class OfMemory : public Sides {
  protected:
    void* allocate(Space space, size_t size)
    {
        CUdeviceptr memory = 0;
        if (space == Space::host) {
            return pinned<char>(size);
        }
        if (space == Space::device) {
            EXPECT_CUDA(cuMemAlloc(&memory, size));
        } else {
            EXPECT_CUDA(cuMemAllocManaged(&memory, size, CU_MEM_ATTACH_GLOBAL));
        }
        return reinterpret_cast<void*>(memory);
    }

    void copy(void* to, const void* from, size_t size, CUstream stream)
    {
        EXPECT_CUDA(cuMemcpyAsync(address_of(to), address_of(from), size, stream));
    }

    // Remote memory for put and get.
    ucp_rkey_h map(Worker& owner, ucp_ep_h ep, void* memory, size_t size, ucp_mem_h* memh)
    {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = memory;
        params.length = size;
        void* packed = nullptr;
        size_t packed_size = 0;
        ucp_rkey_h rkey = nullptr;
        EXPECT_UCS(ucp_mem_map(owner.context, &params, memh));
        EXPECT_UCS(ucp_rkey_pack(owner.context, *memh, &packed, &packed_size));
        EXPECT_UCS(ucp_ep_rkey_unpack(ep, packed, &rkey));
        ucp_rkey_buffer_release(packed);
        return rkey;
    }
};

class Operations : public OfMemory, public testing::WithParamInterface<Case> {};

// Where an active message goes, by whichever thread progresses the worker.
struct AmTarget {
    ucp_worker_h worker;
    void* buffer;
    std::atomic<bool> done{false};
};

ucs_status_t on_am(void* argument, const void*, size_t, void* data, size_t length,
                   const ucp_am_recv_param_t* param)
{
    auto& target = *static_cast<AmTarget*>(argument);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        EXPECT_CUDA(cuMemcpy(address_of(target.buffer), address_of(data), length));
        target.done = true;
        return UCS_OK;
    }
    ucp_request_param_t receive{};
    receive.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    receive.user_data = &target;
    receive.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* user_data) {
        EXPECT_UCS(status);
        static_cast<AmTarget*>(user_data)->done = true;
        ucp_request_free(request);
    };
    EXPECT_TRUE(
        UCS_PTR_IS_PTR(ucp_am_recv_data_nbx(target.worker, data, target.buffer, length, &receive)));
    return UCS_INPROGRESS;
}

// An operation of the stream's context starts when the gate opens, and all is right behind it.
TEST_P(Operations, StartsWhenTheStreamGetsThereAndIsOverBehindTheWait)
{
    const auto [kind, space, size] = GetParam();
    CUstream sender = stream(), receiver = stream();
    std::vector<char> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 3);
    // In GPU memory: a copy from host memory to host memory would block its caller.
    char *expected = on_gpu<char>(size), *arrived = on_gpu<char>(size), *zeros = on_gpu<char>(size);
    ASSERT_CUDA(cuMemcpyHtoD(address_of(expected), numbers.data(), size));
    void* source = allocate(space, size);
    void* target = allocate(space, size);
    copy(source, zeros, size, sender);
    copy(target, zeros, size, sender);
    ASSERT_CUDA(cuStreamSynchronize(sender));

    ucp_mem_h memh = nullptr;
    ucp_rkey_h rkey = nullptr;
    AmTarget am{b_->worker, target};
    if (kind == Kind::put || kind == Kind::flush) {
        rkey = map(*b_, to_b_, target, size, &memh);
    }
    if (kind == Kind::get) {
        rkey = map(*b_, to_b_, source, size, &memh);
    }
    if (kind == Kind::am) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                             UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id = 7;
        handler.cb = on_am;
        handler.arg = &am;
        ASSERT_UCS(ucp_worker_set_am_recv_handler(b_->worker, &handler));
    }
    if (kind != Kind::tag) { // nothing of libucx-gdr's is under way at the other side
        start_application();
    }

    Gate gate(sender);
    copy(source, expected, size, sender);
    ugdr_condition_h point = point_of(at_a_, sender);
    ugdr_op_param_t param = on(point, UGDR_OP_FLAG_STREAM_WAIT);
    const uint64_t remote = reinterpret_cast<uint64_t>(kind == Kind::get ? source : target);
    switch (kind) {
    case Kind::tag:
        ASSERT_UCS(ugdr_tag_send(at_a_, to_b_, source, size, 5, &param, nullptr));
        break;
    case Kind::am:
        ASSERT_UCS(ugdr_am_send(at_a_, to_b_, 7, nullptr, 0, source, size, &param, nullptr));
        break;
    case Kind::get:
        ASSERT_UCS(ugdr_get(at_a_, to_b_, target, size, remote, rkey, &param, nullptr));
        break;
    default: {
        const ugdr_op_param_t no_wait = on(point);
        ASSERT_UCS(ugdr_put(at_a_, to_b_, source, size, remote, rkey, &no_wait, nullptr));
        if (kind == Kind::flush) {
            ASSERT_UCS(ugdr_worker_flush(at_a_, &param, nullptr));
        } else {
            ASSERT_UCS(ugdr_ep_flush(at_a_, to_b_, &param, nullptr));
        }
        break;
    }
    }
    ASSERT_UCS(ugdr_condition_destroy(point));
    copy(source, zeros, size, sender); // the buffer is used again

    if (kind == Kind::tag) {
        ugdr_condition_h now = point_of(at_b_, receiver);
        param = on(now, UGDR_OP_FLAG_STREAM_WAIT);
        ASSERT_UCS(ugdr_tag_recv(at_b_, target, size, 5, ~0ul, &param, nullptr));
        ASSERT_UCS(ugdr_condition_destroy(now));
        copy(arrived, target, size, receiver);
    }
    std::this_thread::sleep_for(kLongEnough / 10);
    EXPECT_EQ(counters(at_a_).posted, 0u);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(sender));
    if (kind == Kind::tag) {
        ASSERT_CUDA(cuStreamSynchronize(receiver));
    } else {
        if (kind == Kind::am) {
            ASSERT_TRUE(eventually([&] { return am.done.load(); }));
        }
        copy(arrived, target, size, sender);
        ASSERT_CUDA(cuStreamSynchronize(sender));
    }
    EXPECT_EQ(copy_of(arrived, size), numbers);
    EXPECT_GE(counters(at_a_).completed, 1u);
    EXPECT_EQ(counters(at_a_).failed, 0u);
    stop_application();
    if (rkey != nullptr) {
        ucp_rkey_destroy(rkey);
        EXPECT_UCS(ucp_mem_unmap(b_->context, memh));
    }
}

INSTANTIATE_TEST_SUITE_P(
    , Operations,
    testing::Combine(testing::Values(Kind::tag, Kind::am, Kind::put, Kind::get, Kind::flush),
                     testing::Values(Space::host, Space::device, Space::managed),
                     testing::Values(8, 65536, 4 << 20)),
    name_of);

// Add, and fetch: the fetched value is there behind the wait. On an endpoint of its own: UCX's
// protocols v2 (seen with 1.22) have none for atomics on endpoints with error handling.
class Atomics : public OfMemory, public testing::WithParamInterface<Space> {};

TEST_P(Atomics, AddAndFetch)
{
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    if (GetParam() == Space::managed && minor > 15) {
        GTEST_SKIP() << "UCX's protocols v2 have no atomics on memory that no HCA takes";
    }
    CUstream work = stream();
    const uint64_t first = 40;
    void* target = allocate(GetParam(), 8);
    auto* operand = pinned<uint64_t>(1);
    auto* fetched = pinned<uint64_t>(1);
    auto* copied = on_gpu<uint64_t>(2);
    ASSERT_CUDA(cuMemcpy(address_of(target), address_of(&first), 8));
    *operand = 2;
    ucp_mem_h memh = nullptr;
    ucp_ep_h ep = connect(a_->worker, b_->address().data(), UCP_ERR_HANDLING_MODE_NONE);
    ucp_rkey_h rkey = map(*b_, ep, target, 8, &memh);
    start_application();
    ucp_request_param_t add{};
    add.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    add.datatype = ucp_dt_make_contig(8);
    ucp_request_param_t fetch = add;
    fetch.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    fetch.reply_buffer = fetched;
    Gate gate(work);
    ugdr_condition_h point = point_of(at_a_, work);
    ugdr_op_param_t param = on(point, 0, &add);
    const auto remote = reinterpret_cast<uint64_t>(target);
    ASSERT_UCS(
        ugdr_atomic(at_a_, ep, UCP_ATOMIC_OP_ADD, operand, 1, remote, rkey, &param, nullptr));
    param = on(point, UGDR_OP_FLAG_STREAM_WAIT, &fetch);
    ASSERT_UCS(
        ugdr_atomic(at_a_, ep, UCP_ATOMIC_OP_ADD, operand, 1, remote, rkey, &param, nullptr));
    ASSERT_UCS(ugdr_condition_destroy(point));
    copy(copied, fetched, 8, work);
    copy(copied + 1, target, 8, work);
    std::this_thread::sleep_for(kLongEnough / 10);
    EXPECT_EQ(counters(at_a_).posted, 0u);
    gate.open();
    ASSERT_CUDA(cuStreamSynchronize(work));
    EXPECT_EQ(copy_of(copied, 2), (std::vector<uint64_t>{42, 44}));
    stop_application();
    ucp_rkey_destroy(rkey);
    close(a_->worker, b_->worker, ep, 0);
    EXPECT_UCS(ucp_mem_unmap(b_->context, memh));
}

INSTANTIATE_TEST_SUITE_P(, Atomics, testing::Values(Space::host, Space::device, Space::managed),
                         [](const auto& info) {
                             return space_names[static_cast<int>(info.param)];
                         });

} // namespace
} // namespace synctest
