// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Stream memory operations: a stream writes a word, waits for one, or lets its device see what HCAs
// have written. The words may be host memory that the driver knows, or a device's; of a device that
// does not order an HCA's writes a stream looks at the device's own view (rdma_writes.cpp).
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/work.hpp"

#include <atomic>
#include <cstring>
#include <vector>

namespace softcuda {

namespace {

constexpr unsigned kBatchLimit = 255; // operations that the driver takes in one call

std::atomic<uint64_t> done{0};

template <typename Value>
struct Word {
    std::atomic<Value>* memory; // as HCAs and the CPU see it
    std::atomic<Value>* seen;   // as the device does
};

template <typename Value>
Word<Value> word_at(CUdeviceptr address, int ordinal)
{
    require(address % sizeof(Value) == 0);
    const Piece piece = pieces(address, sizeof(Value), Space::device, ordinal).front();
    return {reinterpret_cast<std::atomic<Value>*>(piece.start),
            reinterpret_cast<std::atomic<Value>*>(piece.start + piece.view)};
}

void require_memops(int ordinal)
{
    require(device(ordinal).memops(), CUDA_ERROR_NOT_SUPPORTED);
}

template <typename Value>
Operation write_value(int ordinal, CUdeviceptr address, Value value, unsigned flags)
{
    require((flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == 0);
    const auto word = word_at<Value>(address, ordinal);
    return {.run = [word, value] {
        ++done;
        word.memory->store(value);
        if (word.memory != word.seen) {
            word.seen->store(value);
        }
    }};
}

template <typename Value>
bool satisfied(Value now, Value value, unsigned how)
{
    switch (how) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<std::make_signed_t<Value>>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
    default:
        return ~(now | value) != 0; // CU_STREAM_WAIT_VALUE_NOR
    }
}

Operation flush_remote_writes(int ordinal)
{
    require(device(ordinal).ordering() == Device::Ordering::by_flush, CUDA_ERROR_NOT_SUPPORTED);
    return {.run = [ordinal] {
        ++done;
        flush_rdma_writes(ordinal);
    }};
}

template <typename Value>
Operation wait_value(int ordinal, CUdeviceptr address, Value value, unsigned flags)
{
    constexpr unsigned kHow = CU_STREAM_WAIT_VALUE_NOR;
    require((flags & ~(kHow | CU_STREAM_WAIT_VALUE_FLUSH)) == 0);
    const auto word = word_at<Value>(address, ordinal);
    Operation operation{.run = [] { ++done; }};
    if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) {
        operation = flush_remote_writes(ordinal);
    }
    operation.ready = [word, value, flags] {
        return satisfied(word.seen->load(), value, flags & kHow);
    };
    operation.polled = true;
    return operation;
}

Operation barrier(unsigned flags)
{
    require(flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU);
    return {.run = [] { ++done; }}; // operations of a stream are ordered as it is
}

Operation from_batch(int ordinal, const CUstreamBatchMemOpParams& of)
{
    int operation; // the program's may be none of the type's values
    std::memcpy(&operation, &of.operation, sizeof(operation));
    switch (operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value(ordinal, of.waitValue.address, of.waitValue.value, of.waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value(ordinal, of.waitValue.address, of.waitValue.value64, of.waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_value(ordinal, of.writeValue.address, of.writeValue.value,
                           of.writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_value(ordinal, of.writeValue.address, of.writeValue.value64,
                           of.writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER:
        return barrier(of.memoryBarrier.flags);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        require(of.flushRemoteWrites.flags == 0);
        return flush_remote_writes(ordinal);
    default:
        throw Error{CUDA_ERROR_INVALID_VALUE};
    }
}

template <typename Make>
void enqueue_one(CUstream handle, Make&& make)
{
    CUstream stream = resolve_stream(handle);
    require_memops(stream->context->device);
    Operation operation = make(stream->context->device);
    operation.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    enqueue(stream, std::move(operation));
}

} // namespace

Operations memory_operations(const CUstreamBatchMemOpParams* batch, unsigned count, unsigned flags,
                             int ordinal)
{
    require(batch != nullptr && count > 0 && count <= kBatchLimit && flags == 0);
    require_memops(ordinal);
    Operations operations; // nothing of a bad batch is enqueued
    for (unsigned i = 0; i < count; ++i) {
        operations.push_back(from_batch(ordinal, batch[i]));
    }
    operations.front().type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    return operations;
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_EXPORT uint64_t softcuda_memops(void)
{
    return done;
}

CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                              unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        enqueue_one(handle,
                    [&](int ordinal) { return write_value(ordinal, address, value, flags); });
    });
}

CUresult cuStreamWriteValue64(CUstream handle, CUdeviceptr address, cuuint64_t value,
                              unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        enqueue_one(handle,
                    [&](int ordinal) { return write_value(ordinal, address, value, flags); });
    });
}

CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        enqueue_one(handle,
                    [&](int ordinal) { return wait_value(ordinal, address, value, flags); });
    });
}

CUresult cuStreamWaitValue64(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        enqueue_one(handle,
                    [&](int ordinal) { return wait_value(ordinal, address, value, flags); });
    });
}

CUresult cuStreamBatchMemOp(CUstream handle, unsigned count, CUstreamBatchMemOpParams* operations,
                            unsigned flags)
{
    return api(__func__, Needs::init, [&] {
        CUstream stream = resolve_stream(handle);
        enqueue(stream, memory_operations(operations, count, flags, stream->context->device));
    });
}
