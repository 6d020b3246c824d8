// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory pools and allocation in stream order. A pool keeps nothing back: freed memory goes to the
// device at once.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/entry.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/stream.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

struct CUmemPoolHandle_st {
    int device;
    bool is_default;
    uint64_t release_threshold = 0;
    std::map<int, int> reuse{{CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1},
                             {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1},
                             {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1}};
};

namespace softcuda {

namespace {

struct Pools {
    std::mutex mutex;
    std::set<CUmemoryPool> all;
    std::map<int, CUmemoryPool> of_device; // default pools
    std::map<int, CUmemoryPool> current;
};

Pools& pools()
{
    static auto& instance = *new Pools;
    return instance;
}

/// The stream of an allocation. Graphs that allocate are not there.
CUstream allocating_stream(CUstream handle)
{
    CUstream stream = resolve_stream(handle);
    require(capture_of(stream) == 0, CUDA_ERROR_NOT_SUPPORTED);
    return stream;
}

/// The rest are called with the lock held.

CUmemoryPool create_pool(int ordinal, bool is_default)
{
    auto* pool = new CUmemPoolHandle_st{device(ordinal).ordinal(), is_default};
    pools().all.insert(pool);
    return pool;
}

CUmemoryPool default_pool(int ordinal)
{
    CUmemoryPool& pool = pools().of_device[device(ordinal).ordinal()];
    if (pool == nullptr) {
        pool = create_pool(ordinal, true);
    }
    return pool;
}

CUmemoryPool current_pool(int ordinal)
{
    auto chosen = pools().current.find(device(ordinal).ordinal());
    return chosen != pools().current.end() ? chosen->second : default_pool(ordinal);
}

CUmemoryPool known(CUmemoryPool pool)
{
    require(pools().all.contains(pool));
    return pool;
}

CUdeviceptr allocate(CUmemoryPool pool, size_t size)
{
    return allocate_device_memory(Kind::pool, pool->device, size, nullptr, pool);
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(pool != nullptr);
        std::lock_guard guard(pools().mutex);
        *pool = default_pool(ordinal);
    });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal)
{
    return api(__func__, Needs::init, [&] {
        require(pool != nullptr);
        std::lock_guard guard(pools().mutex);
        *pool = current_pool(ordinal);
    });
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(pools().mutex);
        require(known(pool)->device == device(ordinal).ordinal());
        pools().current[ordinal] = pool;
    });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties)
{
    return api(__func__, Needs::init, [&] {
        require(pool != nullptr && properties != nullptr);
        require(properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        require(properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
        std::lock_guard guard(pools().mutex);
        *pool = create_pool(properties->location.id, false);
    });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(pools().mutex);
        require(!known(pool)->is_default);
        std::erase_if(pools().current, [&](const auto& entry) { return entry.second == pool; });
        pools().all.erase(pool);
        delete pool;
    });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t)
{
    return api(__func__, Needs::init, [&] {
        std::lock_guard guard(pools().mutex);
        known(pool); // there is never anything to give back
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr);
        std::lock_guard guard(pools().mutex);
        known(pool);
        if (auto flag = pool->reuse.find(attribute); flag != pool->reuse.end()) {
            std::memcpy(&flag->second, value, sizeof(flag->second));
            return;
        }
        require(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, CUDA_ERROR_NOT_SUPPORTED);
        std::memcpy(&pool->release_threshold, value, sizeof(pool->release_threshold));
    });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value)
{
    return api(__func__, Needs::init, [&] {
        require(value != nullptr);
        std::lock_guard guard(pools().mutex);
        known(pool);
        if (auto flag = pool->reuse.find(attribute); flag != pool->reuse.end()) {
            std::memcpy(value, &flag->second, sizeof(flag->second));
            return;
        }
        uint64_t number = 0;
        switch (attribute) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            number = pool->release_threshold;
            break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
            number = pool_usage(pool);
            break;
        default:
            throw Error{CUDA_ERROR_NOT_SUPPORTED}; // high-water marks
        }
        std::memcpy(value, &number, sizeof(number));
    });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        require(address != nullptr);
        CUstream stream = allocating_stream(handle);
        std::lock_guard guard(pools().mutex);
        *address = allocate(current_pool(stream->context->device), size);
    });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t size, CUmemoryPool pool,
                                 CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        require(address != nullptr);
        allocating_stream(handle);
        std::lock_guard guard(pools().mutex);
        *address = allocate(known(pool), size);
    });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
    return api(__func__, Needs::init, [&] {
        CUstream stream = allocating_stream(handle);
        // Unknown at once; the memory is used again only when the stream gets there.
        Kind kinds[] = {Kind::pool, Kind::device};
        Allocation allocation = remove(address, kinds);
        enqueue(stream, {.run = [allocation] { release(allocation); }});
    });
}
