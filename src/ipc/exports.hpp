// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The keys of this process's allocations. Each is made once, when memory of the allocation is
// first told to a peer.
#pragma once

#include "cuda/allocation_handle.hpp"
#include "cuda/pointer.hpp"
#include "ipc/remote_key.hpp"

#include <mutex>
#include <unordered_map>

namespace gdr::ipc {

// Any thread.
class Exports {
  public:
    explicit Exports(const cuda::Driver& driver) : driver_(driver) {}

    // The key of the allocation that holds [address, address + length), of Sharing::none where
    // others cannot open it; why is told in the log, once for each cause. Of memory that the
    // calling thread has told before: one query of the driver, of the buffer id alone, and no lock.
    RemoteKey key_of(const void* address, size_t length);

  private:
    RemoteKey find_or_make(const void* address, size_t length);
    RemoteKey make(const cuda::Pointer& memory) const;
    void share(RemoteKey& key, const cuda::AllocationHandle& memory) const; // of cuMemCreate

    const cuda::Driver& driver_;
    std::mutex mutex_;
    std::unordered_map<uintptr_t, RemoteKey> keys_; // by base
};

} // namespace gdr::ipc
