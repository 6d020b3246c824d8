// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The keys of this process's allocations. Each is made once, when memory of the allocation is
// first told to a peer, and kept as long as the memory is there, and little longer.
#pragma once

#include "cuda/allocation_handle.hpp"
#include "cuda/pointer.hpp"
#include "ipc/pause.hpp"
#include "ipc/remote_key.hpp"

#include <map>
#include <mutex>

namespace gdr::ipc {

// Any thread.
class Exports {
  public:
    explicit Exports(const cuda::Driver& driver) : driver_(driver) {}

    // The key of the allocation that holds [address, address + length), of Sharing::none where
    // others cannot open it; why is told in the log, once for each cause. Of memory that the
    // calling thread has told before: one query of the driver, of the buffer id alone, and no lock.
    RemoteKey key_of(const void* address, size_t length);

    // The keys that are kept.
    size_t count();

  private:
    RemoteKey find_or_make(const void* address, size_t length);
    RemoteKey make(const cuda::Pointer& memory) const;
    void share(RemoteKey& key, const cuda::AllocationHandle& memory) const; // of cuMemCreate
    void forget_freed();

    const cuda::Driver& driver_;
    std::mutex mutex_;
    std::map<uintptr_t, RemoteKey> keys_; // by base
    uintptr_t next_examined_ = 0;         // base
    Pause pause_;                         // while none can be made
};

} // namespace gdr::ipc
