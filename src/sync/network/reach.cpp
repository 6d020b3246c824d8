// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "sync/network/reach.hpp"

#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/ipc_handle.hpp"
#include "cuda/nvml.hpp"
#include "ipc/process.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

namespace gdr::sync {
namespace {

const cuda::Driver& require_driver_in_use()
{
    const cuda::Driver* const driver = driver_in_use();
    if (driver == nullptr) {
        throw std::runtime_error("this process does not use CUDA");
    }
    return *driver;
}

bool is_within_allocation(const cuda::Pointer& memory, const void* address, size_t length)
{
    const auto start = reinterpret_cast<uintptr_t>(address);
    return start >= memory.base && start + length <= memory.end();
}

// NVLink carries atomics of one GPU on another's memory, PCIe does not.
bool has_atomics(const std::string& one, const std::string& other)
{
    static std::mutex lock;
    static auto& known = *new std::map<std::pair<std::string, std::string>, bool>;
    const std::lock_guard guard(lock); // asking takes long
    const auto [at, is_new] = known.try_emplace({one, other}, one == other);
    if (is_new && one != other) {
        const auto links = cuda::links({{one, other}});
        at->second = !links.empty() && links[0] && links[0]->nvlink && links[0]->peers;
    }
    return at->second;
}

} // namespace

const cuda::Driver* driver_in_use()
{
    return cuda::open_driver() != nullptr ? cuda::initialised_driver() : nullptr;
}

std::optional<Reach> reach_of(const void* address, size_t length)
{
    const cuda::Driver* const driver = driver_in_use();
    if (driver == nullptr) {
        return std::nullopt;
    }
    const cuda::Pointer memory = cuda::classify(*driver, address);
    if (!is_within_allocation(memory, address, length)) {
        return std::nullopt;
    }
    if (memory.kind == cuda::MemoryKind::device) {
        return Reach{reinterpret_cast<uint64_t>(address), length, memory.context, memory.device};
    }
    CUdeviceptr seen = 0;
    if (memory.kind == cuda::MemoryKind::host && memory.pinned &&
        driver->cuMemHostGetDevicePointer(&seen, const_cast<void*>(address), 0) == CUDA_SUCCESS) {
        return Reach{seen, length, nullptr, -1};
    }
    return std::nullopt;
}

// Memory of pools and of cuMemCreate has no such handles.
Shared share(const void* address, size_t length)
{
    const ipc::Process process = ipc::this_process();
    Shared shared{.host = process.host, .pid_namespace = process.pid_namespace};
    const cuda::Driver* const driver = driver_in_use();
    if (driver == nullptr) {
        return shared;
    }
    const cuda::Pointer memory = cuda::classify(*driver, address);
    if (memory.kind != cuda::MemoryKind::device || memory.context == nullptr ||
        !is_within_allocation(memory, address, length)) {
        return shared;
    }
    const cuda::CurrentContext current(*driver, memory);
    if (driver->cuIpcGetMemHandle(&shared.handle, memory.base) == CUDA_SUCCESS) {
        const std::string gpu = cuda::device(*driver, memory.device).pci_bus_id;
        gpu.copy(shared.gpu.data(), shared.gpu.size() - 1);
        shared.offset = reinterpret_cast<uint64_t>(address) - memory.base;
    }
    return shared;
}

bool is_near(const Shared& shared)
{
    const ipc::Process process = ipc::this_process();
    return shared.host == process.host && shared.pid_namespace == process.pid_namespace;
}

Opened::Opened(const Shared& shared, size_t length) : driver_(require_driver_in_use())
{
    if (shared.gpu[0] == '\0') {
        throw std::runtime_error("it has no handle of CUDA IPC (memory of the host, of a pool or "
                                 "of cuMemCreate; cudaMalloc's has one)");
    }
    CUdevice gpu = -1;
    CUcontext context = nullptr;
    cuda::check(driver_.cuCtxGetDevice(&gpu), "cuCtxGetDevice");
    cuda::check(driver_.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    const std::string theirs(shared.gpu.data(), strnlen(shared.gpu.data(), shared.gpu.size())),
        ours = cuda::device(driver_, gpu).pci_bus_id;
    if (!has_atomics(ours, theirs)) {
        throw std::runtime_error("no NVLink joins GPU " + ours + " with GPU " + theirs +
                                 ", so there are no atomic operations between them");
    }
    const uint64_t end = shared.offset + length;
    if (end < shared.offset) {
        throw std::runtime_error("the blob contradicts itself");
    }
    allocation_ = cuda::open_ipc_handle(driver_, shared.handle, end);
    reach_ = {allocation_ + shared.offset, length, context, gpu};
}

Opened::~Opened()
{
    try {
        const cuda::CurrentContext current(driver_, reach_.context);
        driver_.cuIpcCloseMemHandle(allocation_);
    } catch (const cuda::Error&) { // the context is gone, and the mapping with it
    }
}

namespace own_memories {
namespace {

using Memory = std::tuple<uint64_t, uint64_t, uint64_t>;

struct All {
    std::mutex lock;
    std::multiset<Memory> memories;
};

All& all()
{
    static auto& instance = *new All;
    return instance;
}

} // namespace

void add(uint64_t context, uint64_t address, uint64_t length)
{
    const std::lock_guard guard(all().lock);
    all().memories.emplace(context, address, length);
}

void remove(uint64_t context, uint64_t address, uint64_t length)
{
    const std::lock_guard guard(all().lock);
    if (const auto at = all().memories.find({context, address, length});
        at != all().memories.end()) {
        all().memories.erase(at);
    }
}

bool contains(uint64_t context, uint64_t address, uint64_t length)
{
    const std::lock_guard guard(all().lock);
    return all().memories.contains({context, address, length});
}

} // namespace own_memories

} // namespace gdr::sync
