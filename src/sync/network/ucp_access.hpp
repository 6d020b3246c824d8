// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What peers and memories need of UCP where a side has no HCA. UCP is called in the engine's
// thread, as for operations, so each call here waits for that.
#pragma once

#include "sync/triggers/engine.hpp"

#include <utility>
#include <vector>

namespace gdr::sync {

class UcpAccess {
  public:
    // The engine, which has a worker, and the UCP context of that outlive it.
    UcpAccess(Engine& engine, ucp_context_h context) : engine_(engine), context_(context) {}
    UcpAccess(const UcpAccess&) = delete;
    UcpAccess& operator=(const UcpAccess&) = delete;

    Engine& engine() const { return engine_; }

    // All below throw Refusal.

    std::vector<uint8_t> worker_address();

    struct Mapped {
        ucp_mem_h handle = nullptr;
        std::vector<uint8_t> rkey{};
    };
    Mapped map(void* address, size_t length);
    void unmap(ucp_mem_h memory);

    ucp_ep_h connect(const void* address);
    // What was under way on it has ended, and that has been told.
    void close(ucp_ep_h ep);

    ucp_rkey_h unpack(ucp_ep_h ep, const void* packed);
    void release(ucp_rkey_h rkey);

  private:
    const Ucx& ucx() const { return engine_.ucx(); }
    void require(ucs_status_t status, const char* function) const;

    Engine& engine_;
    const ucp_context_h context_;
};

} // namespace gdr::sync
