// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which handle each kind of memory has.
#include "ipc/exports.hpp"

#include "abi/host.hpp"
#include "cuda/allocation_handle.hpp"
#include "cuda/context.hpp"
#include "ipc/descriptor_server.hpp"
#include "ipc/process.hpp"

#include <atomic>
#include <set>

namespace gdr::ipc {

namespace {

// Once for each cause: what the user can do depends on it alone.
void tell(const void* address, const char* why_not)
{
    static std::mutex mutex;
    static std::set<const char*> told;
    const std::lock_guard guard(mutex);
    if (told.insert(why_not).second)
        gdr_log(info,
                "GPU memory at %p cannot be opened by other processes and goes over the HCA: "
                "%s",
                address, why_not);
}

} // namespace

RemoteKey Exports::make(const cuda::Pointer& memory, const char** why_not) const
{
    const Process process = this_process();
    RemoteKey key;
    key.pid = process.pid;
    key.owner = process.id;
    key.base = memory.base;
    key.length = memory.length;
    key.buffer_id = memory.buffer_id;
    const auto base = static_cast<CUdeviceptr>(memory.base);
    if (memory.context != nullptr) {
        const cuda::CurrentContext current(driver_, memory);
        const CUresult result = driver_.cuIpcGetMemHandle(&key.handle, base);
        if (result == CUDA_SUCCESS)
            key.sharing = Sharing::handle;
        else
            *why_not = "cuIpcGetMemHandle refuses it (memory that came from another process, a GPU "
                       "or a system without CUDA IPC)";
    } else if (!memory.mapped) {
        *why_not = "it is of a memory pool (cudaMallocAsync, RMM's async resource, PyTorch with "
                   "backend:cudaMallocAsync), which CUDA does not share after it was made; "
                   "allocate it by cudaMalloc";
    } else if (!cuda::AllocationHandle(driver_, base).has_descriptor()) {
        *why_not = "it was made by cuMemCreate without a handle type for other processes (PyTorch "
                   "with expandable_segments); ask for POSIX file descriptors or allocate it by "
                   "cudaMalloc";
    } else if (!serve_descriptors(driver_)) {
        *why_not = "this process cannot give file descriptors to others";
    } else {
        key.sharing = Sharing::descriptor;
    }
    return key;
}

RemoteKey Exports::key_of(const void* address, size_t length)
try {
    const cuda::Pointer memory = cuda::classify(driver_, address);
    if (memory.kind != cuda::MemoryKind::device)
        return {};
    if (reinterpret_cast<uintptr_t>(address) + length > memory.end()) {
        tell(address, "it lies in several mappings of cuMemCreate's memory");
        return {};
    }
    const std::lock_guard guard(mutex_);
    auto [known, fresh] = keys_.try_emplace(memory.base);
    if (!fresh && known->second.buffer_id == memory.buffer_id)
        return known->second;
    const char* why_not = nullptr;
    known->second = make(memory, &why_not);
    if (why_not != nullptr)
        tell(address, why_not);
    return known->second;
} catch (const cuda::Error& error) {
    gdr_log(debug, "%p is not shared with other processes: %s", address, error.what());
    return {};
}

} // namespace gdr::ipc
