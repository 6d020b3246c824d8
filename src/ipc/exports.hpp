// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The keys of this process's allocations. A key is made once, when memory of the allocation is
// first packed for a peer, and kept until shortly after the memory is freed.
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

    // The key of the allocation that holds [address, address + length), of Sharing::none if others
    // cannot open it; the log gives each cause once. For memory that the calling thread has asked
    // about before it costs one driver query, of the buffer id, and no lock.
    RemoteKey key_of(const void* address, size_t length);

    // The number of keys that are kept.
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
    Pause pause_;                         // while no key can be made
};

} // namespace gdr::ipc
