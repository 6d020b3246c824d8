// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The memory domain of CUDA IPC: gives UCP the keys by which peers open memory.
#pragma once

#include "abi/memory_domain.hpp"
#include "ipc/exports.hpp"
#include "ipc/settings.hpp"

namespace gdr::ipc {

// Calls from any thread.
class MemoryDomain final : public abi::MemoryDomain {
  public:
    MemoryDomain(const cuda::Driver& driver, const MdSettings& settings);
    ~MemoryDomain() override;

    abi::MdAttributes attributes() const override;

    // Makes no driver call: with its cache off, UCP registers memory for each message but needs few
    // of the keys.
    ucs_status_t reg(void* address, size_t length, abi::Registration asked,
                     uct_mem_h* memh) override;

    // Peers can access memory as long as they have it open, as with UCX's own CUDA IPC.
    ucs_status_t dereg(uct_mem_h memh, uct_completion_t* invalidated) override;

    // Always succeeds: the key of memory that cannot be shared says so.
    ucs_status_t pack_rkey(uct_mem_h memh, const void*, size_t, void* buffer) override;

  private:
    Exports exports_;
};

// UCS_ERR_UNREACHABLE for memory that does not open here: UCP then does not use this transport for
// it. UCS_ERR_INVALID_PARAM if it is not one of our keys.
ucs_status_t unpack_rkey(const void* buffer, uct_rkey_t* rkey, void** handle);
void release_rkey(uct_rkey_t rkey, void* handle);

} // namespace gdr::ipc
