// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libucs's memory type cache. It is off, and looks empty or not.
//
//     UCX's own --apply()--> off                             held() is false: never looks empty
//         |
//         +--hold()--> full --apply()--> full and off <--look_empty()--> empty and off
//
// If the cache exists and is empty, UCP passes small payloads to its transports' short operations
// without asking for their memory type (ucp_proto_is_inline, ucp_proto_select_is_short and the
// stream's send, from UCX 1.13 to 1.22). That saves a request and the choice of a protocol. Nothing
// is looked up in the cache, which is off.
#pragma once

#include "abi/uct_calls.hpp"
#include "host/variable.hpp"

#include <atomic>

namespace gdr::host {

class MemtypeCache final : public Variable {
  public:
    constexpr MemtypeCache()
        : Variable("MEMTYPE_CACHE", "n",
                   "what this cache misses counts as host memory, and nothing fills it but a UCX "
                   "with CUDA, with the allocations that it sees")
    {
    }

    // Makes UCX create the cache, with an entry that nobody looks for. To be called before apply().
    // Nothing changes if UCX's memory hooks are off or the user has disabled the cache.
    void hold();
    bool held() const { return remove_ != nullptr; }

    // Removes the entry or adds it. A cache with other entries is not empty without it either. One
    // thread at a time; only if held().
    void look_empty(bool empty);
    bool looks_empty() const { return taken_out_.load(); }

  private:
    bool make() override;

    abi::MemoryTypeUpdate* update_ = nullptr;
    abi::MemoryTypeRemove* remove_ = nullptr; // NULL: not held
    std::atomic<bool> taken_out_{false};
};

MemtypeCache& memtype_cache();

} // namespace gdr::host
