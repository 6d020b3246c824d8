// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Chooses the handle for each kind of memory.
#include "ipc/exports.hpp"

#include "cuda/context.hpp"
#include "cuda/recent.hpp"
#include "host/registration_cache.hpp"
#include "ipc/descriptor_server.hpp"
#include "ipc/process.hpp"
#include "log/log.hpp"
#include "tables/by_page.hpp"

#include <atomic>
#include <bit>

namespace gdr::ipc {

namespace {

// Why other processes cannot open memory. Logged once per cause, because what the user can do
// depends only on the cause.
struct Cause {
    const char* text;
    std::atomic<bool> logged{false};
};

Cause refused{"cuIpcGetMemHandle refuses it (memory that came from another process, a GPU or a "
              "system without CUDA IPC)"};
Cause of_pool{"it is of a memory pool (cudaMallocAsync, RMM's async resource, PyTorch with "
              "backend:cudaMallocAsync), which CUDA does not share after it was made; allocate it "
              "by cudaMalloc"};
Cause no_handle_type{"it was made by cuMemCreate without a handle type for other processes "
                     "(PyTorch with expandable_segments); ask for POSIX file descriptors or "
                     "allocate it by cudaMalloc"};
Cause no_fabric{"it has fabric handles alone, which the driver does not give (is there an IMEX "
                "channel, /dev/nvidia-caps-imex-channels, that this process may use?); ask for "
                "POSIX file descriptors, too"};
Cause no_server{"this process has no socket to give file descriptors to others by (has it reached "
                "its limit of open files, ulimit -n?)"};
Cause several_mappings{"it lies in several mappings of cuMemCreate's memory"};

void log_cause(Cause& cause, uintptr_t address)
{
    if (cause.logged.load(std::memory_order_relaxed) || cause.logged.exchange(true)) {
        return;
    }
    gdr_log(info,
            "GPU memory at %#llx cannot be opened by other processes and goes over the HCA: %s",
            static_cast<unsigned long long>(address), cause.text);
}

// Old keys examined for each new key. With four, keys of freed memory stay fewer than the others
// while memory comes and goes.
constexpr unsigned kExamined = 4;

// The keys that a thread returned last, by the address asked about.
thread_local tables::ByPage<RemoteKey, 5> recent;

bool covers(const RemoteKey& key, uintptr_t address, size_t length)
{
    const uintptr_t end = cuda::own_end(key.base + key.length);
    return address >= key.base && address <= end && length <= end - address;
}

} // namespace

RemoteKey Exports::make(const cuda::Pointer& memory) const
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
        if (result == CUDA_SUCCESS) {
            key.sharing = Sharing::handle;
        } else {
            log_cause(refused, memory.base);
        }
    } else if (!memory.mapped) {
        log_cause(of_pool, memory.base);
    } else {
        share(key, cuda::AllocationHandle(driver_, base));
    }
    return key;
}

// A descriptor needs nothing besides the two processes, so it comes first.
void Exports::share(RemoteKey& key, const cuda::AllocationHandle& memory) const
{
    if (memory.has_descriptor()) {
        try {
            serve_descriptors();
        } catch (const std::runtime_error&) {
            log_cause(no_server, key.base);
            throw;
        }
        key.proof = proof_of(key.base, key.buffer_id);
        key.sharing = Sharing::descriptor;
        return;
    }
    if (!memory.has_fabric()) {
        log_cause(no_handle_type, key.base);
        return;
    }
    try {
        key.handle = std::bit_cast<CUipcMemHandle>(memory.fabric());
        key.sharing = Sharing::fabric;
    } catch (const cuda::Error& error) {
        gdr_log(debug, "GPU memory at %#llx: %s", static_cast<unsigned long long>(key.base),
                error.what());
        log_cause(no_fabric, key.base);
    }
}

RemoteKey Exports::key_of(const void* address, size_t length)
{
    const auto start = reinterpret_cast<uintptr_t>(address);
    RemoteKey& known = recent[start];
    if (!covers(known, start, length) || !cuda::still_there(driver_, address, known.buffer_id))
        [[unlikely]] {
        known = find_or_make(address, length);
    }
    return known;
}

// Examines a few keys, continuing after the last one, because nothing reports freed memory. The
// caller holds the lock.
void Exports::forget_freed()
{
    for (unsigned i = 0; i < kExamined; ++i) {
        const auto at = keys_.lower_bound(next_examined_);
        if (at == keys_.end()) {
            next_examined_ = 0;
            return;
        }
        next_examined_ = at->first + 1;
        if (cuda::buffer_id(driver_, reinterpret_cast<void*>(at->first)) != at->second.buffer_id) {
            keys_.erase(at);
        }
    }
}

size_t Exports::count()
{
    const std::lock_guard guard(mutex_);
    return keys_.size();
}

RemoteKey Exports::find_or_make(const void* address, size_t length)
try {
    const cuda::Pointer memory = cuda::classify(driver_, address);
    const bool all = memory.kind == cuda::MemoryKind::device &&
                     reinterpret_cast<uintptr_t>(address) + length <= cuda::own_end(memory.end());
    if (!all) { // or the registration is of memory that was here before: CUDA cannot tell
        if (memory.mapped) {
            log_cause(several_mappings, reinterpret_cast<uintptr_t>(address));
        }
        host::registration_cache().end_registrations(address, length);
        return {};
    }
    const std::lock_guard guard(mutex_);
    if (const auto known = keys_.find(memory.base);
        known != keys_.end() && known->second.buffer_id == memory.buffer_id) {
        return known->second;
    }
    if (pause_.lasts()) {
        return {};
    }
    pause_.begin(); // until it is made
    const RemoteKey key = make(memory);
    pause_.end();
    forget_freed();
    return keys_[memory.base] = key;
} catch (const std::runtime_error& error) { // retried later
    gdr_log(debug, "%p is not shared with other processes: %s", address, error.what());
    return {};
}

} // namespace gdr::ipc
