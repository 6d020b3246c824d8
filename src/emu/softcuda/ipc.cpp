// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA IPC: memory of another process at an address of this one. Nothing is left behind by a
// process that dies: its memory lives as long as somebody has it open.
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace softcuda {

namespace {

constexpr uint64_t kMagic = 0x736f'6674'6375'6461; // "softcuda"

struct IpcHandle {
    uint64_t magic;
    uint64_t size; // of the allocation
    MemoryName name;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

using Key = std::tuple<CUcontext, uint64_t, uint64_t>; // context, inode, offset

struct Opened {
    CUdeviceptr address;
    unsigned count;
};

struct Ipc {
    std::mutex mutex;
    std::map<Key, Opened> opened;
};

Ipc& ipc()
{
    static auto& instance = *new Ipc;
    return instance;
}

CUdeviceptr open(const IpcHandle& handle, CUcontext context)
{
    Device& on = device(handle.name.device);
    size_t alignment = handle.size >= kLargePage ? kLargePage : kPage;
    Allocation allocation{Kind::ipc, 0, handle.size, on.ordinal(), context};
    allocation.extent = map_memory(handle.name);
    allocation.reserved_length = round_up(handle.name.length, alignment);
    allocation.reserved = on.addresses().take(allocation.reserved_length, alignment);
    if (allocation.reserved == 0) {
        unmap_memory(allocation.extent);
        throw Error{CUDA_ERROR_OUT_OF_MEMORY};
    }
    allocation.base = allocation.reserved + offset_in_page(handle.size);
    allocation.rdma_capable = true;
    insert(allocation);
    return allocation.base;
}

} // namespace

} // namespace softcuda

using namespace softcuda;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address)
{
    return api(__func__, Needs::context, [&] {
        require(out != nullptr);
        auto allocation = find(address);
        require(allocation && allocation->kind == Kind::device);
        IpcHandle handle{kMagic, allocation->size,
                         name_memory(allocation->extent, allocation->device, true)};
        std::memset(out, 0, sizeof(*out));
        std::memcpy(out, &handle, sizeof(handle));
    });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle in, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(address != nullptr && (flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0);
        IpcHandle handle;
        std::memcpy(&handle, &in, sizeof(handle));
        require(handle.magic == kMagic && handle.size > 0);
        require(handle.size + offset_in_page(handle.size) <= handle.name.length);
        // As with the real driver, a process cannot open its own memory.
        require(handle.name.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
        CUcontext context = current_context();
        std::lock_guard guard(ipc().mutex);
        auto [entry, fresh] = ipc().opened.try_emplace(
            Key{context, handle.name.inode, handle.name.offset}, Opened{0, 0});
        if (fresh) {
            try {
                entry->second.address = open(handle, context);
            } catch (const Error&) {
                ipc().opened.erase(entry);
                throw;
            }
        }
        ++entry->second.count;
        *address = entry->second.address;
    });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    return api(__func__, Needs::context, [&] {
        std::lock_guard guard(ipc().mutex);
        auto entry = std::find_if(
            ipc().opened.begin(), ipc().opened.end(),
            [&](const auto& candidate) { return candidate.second.address == address; });
        require(entry != ipc().opened.end());
        if (--entry->second.count > 0) {
            return;
        }
        ipc().opened.erase(entry);
        Kind kinds[] = {Kind::ipc};
        Allocation allocation = remove(address, kinds);
        wait_for_device(allocation.device);
        release(allocation);
    });
}
