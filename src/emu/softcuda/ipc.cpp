// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA IPC: memory of another process at an address of this one. Nothing is left behind by a
// process that dies: its memory lives as long as somebody has it open.
#include "emu/softcuda/capture.hpp"
#include "emu/softcuda/context.hpp"
#include "emu/softcuda/handle.hpp"
#include "emu/softcuda/memory.hpp"
#include "emu/softcuda/stream.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace softcuda {

namespace {

constexpr uint32_t kMagic = 0x7363'7564; // "scud"

struct IpcHandle {
    uint32_t magic;       // with the owner's pid namespace in it: others cannot open the memory
    int32_t token;        // fd in the owner, closed when the memory is freed
    uint32_t token_inode; // of the file, its low bits
    uint32_t place;       // in the owner: the low bits of the address, in units of 256 bytes
    uint64_t size;        // of the allocation
    MemoryName name;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

using Key = std::tuple<CUcontext, uint64_t, uint64_t>; // context, inode, offset

struct Opened {
    CUdeviceptr address;
    unsigned count;
    pid_t owner;
    uint32_t place; // in the owner
    uint64_t size;
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

uint32_t magic()
{
    struct stat space {};
    stat("/proc/self/ns/pid", &space);
    return kMagic ^ static_cast<uint32_t>(space.st_ino);
}

/// The token of an allocation that is to be opened by others.
int token_of(const Allocation& allocation)
{
    if (allocation.ipc_token >= 0) {
        return allocation.ipc_token;
    }
    int token = memfd_create("softcuda-ipc", MFD_CLOEXEC);
    require(token >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    modify(
        allocation.base, [](Allocation& a, uint64_t fd) { a.ipc_token = static_cast<int>(fd); },
        static_cast<uint64_t>(token));
    return token;
}

/// Whether the owner lives and has not freed the memory.
void check_alive(const IpcHandle& handle)
{
    struct stat status {};
    std::string files = "/proc/" + std::to_string(handle.name.pid) + "/fd/";
    require(stat(files.c_str(), &status) == 0, CUDA_ERROR_INVALID_HANDLE);
    require(stat((files + std::to_string(handle.token)).c_str(), &status) == 0 &&
            static_cast<uint32_t>(status.st_ino) == handle.token_inode);
}

CUdeviceptr open(const IpcHandle& handle, CUcontext context)
{
    check_alive(handle);
    Device& on = device(context->device); // the pointer is of this one, as with the real driver
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
    insert(allocation);
    return allocation.base;
}

/// Freed memory that is still open where the owner has other memory now. The real driver refuses
/// the latter as long as both are parts of one block, as allocations below 2 MiB are.
void require_not_in_the_way(const std::pair<const Key, Opened>& entry)
{
    // Not by names for both at once: clang 14 lets no lambda use those.
    const Key& key = entry.first;
    const Opened& opened = entry.second;
    const bool in_the_way = std::ranges::any_of(ipc().opened, [&](const auto& other) {
        return std::get<0>(other.first) == std::get<0>(key) && other.first != key &&
               other.second.owner == opened.owner && other.second.place == opened.place &&
               std::max(other.second.size, opened.size) < kLargePage;
    });
    require(!in_the_way, CUDA_ERROR_ALREADY_MAPPED);
}

} // namespace

void forget_openings(CUcontext context)
{
    std::lock_guard guard(ipc().mutex);
    std::erase_if(ipc().opened,
                  [&](const auto& opened) { return std::get<0>(opened.first) == context; });
}

} // namespace softcuda

using namespace softcuda;

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address)
{
    return api(__func__, Needs::context, [&] {
        require(out != nullptr);
        require(sharing() != Sharing::off, CUDA_ERROR_NOT_SUPPORTED);
        std::lock_guard guard(ipc().mutex);
        auto allocation = find(address);
        require(allocation && allocation->kind == Kind::device);
        IpcHandle handle{};
        handle.magic = magic();
        handle.token = token_of(*allocation);
        handle.token_inode = static_cast<uint32_t>(inode_of(handle.token));
        handle.size = allocation->size;
        handle.place = static_cast<uint32_t>(allocation->base >> 8);
        handle.name = name_memory(allocation->extent, device(allocation->device).number(), true);
        std::memset(out, 0, sizeof(*out));
        std::memcpy(out, &handle, sizeof(handle));
    });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle in, unsigned flags)
{
    return api(__func__, Needs::context, [&] {
        require(address != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        require_no_capture();
        IpcHandle handle;
        std::memcpy(&handle, &in, sizeof(handle));
        require(handle.magic == magic() && handle.size > 0);
        require(handle.size + offset_in_page(handle.size) <= handle.name.length);
        // As with the real driver, a process cannot open its own memory.
        require(handle.name.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
        CUcontext context = current_context();
        require(peers(device(context->device).number(), handle.name.device),
                CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        std::lock_guard guard(ipc().mutex);
        auto [entry, fresh] =
            ipc().opened.try_emplace(Key{context, handle.name.inode, handle.name.offset},
                                     Opened{0, 0, handle.name.pid, handle.place, handle.size});
        if (fresh) {
            try {
                require_not_in_the_way(*entry);
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
        require_no_capture();
        std::lock_guard guard(ipc().mutex);
        auto entry =
            std::find_if(ipc().opened.begin(), ipc().opened.end(), [&](const auto& candidate) {
                return candidate.second.address == address;
            });
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
