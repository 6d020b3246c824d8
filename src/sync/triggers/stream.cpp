// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Streams by name, and the CUDA calls by which they trigger and wait.
#include "sync/triggers/stream.hpp"

#include "cuda/context.hpp"
#include "sync/ucx/refusal.hpp"

#include <utility>

namespace gdr::sync {
namespace {

// 0 if the driver has no ids; then handles alone tell streams apart.
unsigned long long id_of(const cuda::Driver& driver, CUstream handle)
{
    unsigned long long id = 0;
    if (driver.cuStreamGetId != nullptr) {
        cuda::check(driver.cuStreamGetId(handle, &id), "cuStreamGetId");
    }
    return id;
}

StreamName name_of(const cuda::Driver& driver, CUstream handle)
{
    static thread_local char this_thread;
    const bool own = handle == CU_STREAM_PER_THREAD;
    return {context_of(driver, handle), handle, own ? &this_thread : nullptr};
}

// The streams of the process, of all contexts of this library.
struct All {
    std::mutex lock; // no CUDA call is made and no other lock taken under it
    std::multimap<StreamName, const Stream*> streams;
};

All& all()
{
    static auto& instance = *new All; // used while the process ends
    return instance;
}

HeldStream make_stream(const cuda::Driver& driver, const StreamName& name, unsigned long long id)
{
    const cuda::CurrentContext current(driver, name.context);
    auto stream = std::make_unique<Stream>();
    stream->name = name;
    stream->id = id;
    stream->abilities = current_abilities(driver);
    stream->words = take_words<StreamWords>(driver, name.context);
    stream->points = stream->words.host->reached.load();
    stream->waits = stream->words.host->released.load();
    const std::lock_guard guard(all().lock);
    all().streams.emplace(name, stream.get());
    return HeldStream(stream.release());
}

} // namespace

Abilities abilities_of(const cuda::Driver& driver, CUdevice device)
{
    // A driver does not know attributes that it does not support.
    const auto attribute = [&](CUdevice_attribute which) {
        int value = 0;
        return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
    };
    Abilities abilities;
    abilities.memops = driver.cuStreamWriteValue64 != nullptr &&
                       driver.cuStreamWaitValue64 != nullptr &&
                       attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
    abilities.sees_writes = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                            CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    abilities.flushes_writes =
        driver.cuFlushGPUDirectRDMAWrites != nullptr &&
        (attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) &
         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
    return abilities;
}

CUcontext context_of(const cuda::Driver& driver, CUstream handle)
{
    CUcontext context = nullptr;
    if (const CUresult result = driver.cuStreamGetCtx(handle, &context); result != CUDA_SUCCESS) {
        throw Refusal(UCS_ERR_INVALID_PARAM, "CUDA does not know the stream: cuStreamGetCtx: " +
                                                 cuda::error_text(driver, result));
    }
    return context;
}

Abilities current_abilities(const cuda::Driver& driver)
{
    CUdevice device = -1;
    cuda::check(driver.cuCtxGetDevice(&device), "cuCtxGetDevice");
    return abilities_of(driver, device);
}

void Stream::mark(const cuda::Driver& driver, CUstream handle, NextNumber& point)
{
    const cuda::CurrentContext current(driver, name.context);
    if (abilities.memops) {
        cuda::check(driver.cuStreamWriteValue64(handle, words.first(), point,
                                                CU_STREAM_WRITE_VALUE_DEFAULT),
                    "cuStreamWriteValue64");
    } else {
        // A stream runs its functions in order, so each counts one.
        const auto reach = [](void* reached) {
            static_cast<std::atomic<uint64_t>*>(reached)->fetch_add(1, std::memory_order_release);
        };
        cuda::check(driver.cuLaunchHostFunc(handle, reach, &words.host->reached),
                    "cuLaunchHostFunc");
    }
    point.keep();
}

void Stream::wait(const cuda::Driver& driver, CUstream handle, NextNumber& wait)
{
    const cuda::CurrentContext current(driver, name.context);
    cuda::check(driver.cuStreamWaitValue64(handle, words.second(), wait, CU_STREAM_WAIT_VALUE_GEQ),
                "cuStreamWaitValue64");
    wait.keep();
}

void Stream::mark_and_wait(const cuda::Driver& driver, CUstream handle, NextNumber& point,
                           NextNumber& wait)
{
    if (driver.cuStreamBatchMemOp == nullptr) {
        mark(driver, handle, point);
        this->wait(driver, handle, wait);
        return;
    }
    const cuda::CurrentContext current(driver, name.context);
    CUstreamBatchMemOpParams both[2]{};
    both[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    both[0].writeValue.address = words.first();
    both[0].writeValue.value64 = point;
    both[0].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    both[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    both[1].waitValue.address = words.second();
    both[1].waitValue.value64 = wait;
    both[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    cuda::check(driver.cuStreamBatchMemOp(handle, 2, both, 0), "cuStreamBatchMemOp");
    point.keep();
    wait.keep();
}

bool Stream::waits_now() const
{
    return words.host->released.load(std::memory_order_relaxed) < waits;
}

bool Stream::idle() const
{
    return words.host->reached.load(std::memory_order_acquire) >= points && !waits_now();
}

// Words that the GPU may still write to must not be given to another stream.
void Stream::let_go()
{
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
        return;
    }
    {
        const std::lock_guard guard(all().lock);
        std::erase_if(all().streams, [&](const auto& one) { return one.second == this; });
    }
    if (idle()) {
        give_words_back(name.context, words);
    }
    delete this;
}

unsigned others_waiting(const Stream& stream)
{
    const std::lock_guard guard(all().lock);
    const auto& streams = all().streams;
    unsigned count = 0;
    const StreamName* counted = &stream.name;
    for (auto one = streams.lower_bound({stream.name.context, nullptr, nullptr});
         one != streams.end() && one->first.context == stream.name.context; ++one) {
        if (one->first == stream.name || one->first == *counted || !one->second->waits_now()) {
            continue;
        }
        counted = &one->first;
        ++count;
    }
    return count;
}

uint64_t thread_of(CUstream handle)
{
    static std::atomic<uint64_t> threads{0};
    static thread_local const uint64_t this_thread = ++threads;
    return handle == CU_STREAM_PER_THREAD ? this_thread : 0;
}

LockedStream Streams::lock(const cuda::Driver& driver, CUstream handle)
{
    const StreamName name = name_of(driver, handle);
    const unsigned long long id = id_of(driver, handle);
    for (;;) {
        HeldStream stream = known_or(name, id, nullptr);
        if (stream == nullptr) {
            stream = known_or(name, id, make_stream(driver, name, id));
        }
        std::unique_lock enqueueing(stream->enqueueing);
        if (known_or(name, id, nullptr) == stream) { // not released meanwhile
            return {std::move(stream), std::move(enqueueing)};
        }
    }
}

HeldStream Streams::known_or(const StreamName& name, unsigned long long id, HeldStream other)
{
    const std::lock_guard guard(lock_);
    auto found = known_.find(name);
    // The handle names another stream now: the old one has been destroyed.
    if (found != known_.end() && found->second->id != id) {
        known_.erase(found);
        found = known_.end();
    }
    if (found == known_.end()) {
        if (other == nullptr) {
            return nullptr;
        }
        found = known_.emplace(name, std::move(other)).first;
    }
    return found->second->held();
}

bool Streams::release(const cuda::Driver& driver, CUstream handle)
{
    const StreamName name = name_of(driver, handle);
    const std::lock_guard guard(lock_);
    const auto found = known_.find(name);
    if (found == known_.end()) {
        return true;
    }
    const HeldStream stream = found->second->held();
    const std::unique_lock enqueueing(stream->enqueueing, std::try_to_lock);
    if (!enqueueing.owns_lock() || !stream->idle()) {
        return false;
    }
    known_.erase(found);
    return true;
}

} // namespace gdr::sync
