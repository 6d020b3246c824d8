// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory that others may read and write: the owner's registration, and what the owner sends to
// its peers so that they can reach it.
#pragma once

#include <cstdint>
#include <vector>

#include <ucp/api/ucp.h>

#include "memory.hpp"
#include "worker.hpp"

namespace ucptest {

// The owner's side. The memory must outlive it.
class ExposedMemory {
  public:
    ExposedMemory(Worker& worker, const Memory& memory);
    ~ExposedMemory();
    ExposedMemory(const ExposedMemory&) = delete;
    ExposedMemory& operator=(const ExposedMemory&) = delete;

    // Address and packed rkey, for RemoteMemory.
    std::vector<uint8_t> packed() const;
    std::vector<uint8_t> packed_rkey() const;

  private:
    Worker& worker_;
    const Memory& memory_;
    ucp_mem_h handle_ = nullptr;
};

// The peer's side.
class RemoteMemory {
  public:
    RemoteMemory(ucp_ep_h ep, const std::vector<uint8_t>& packed);
    ~RemoteMemory();
    RemoteMemory(const RemoteMemory&) = delete;
    RemoteMemory& operator=(const RemoteMemory&) = delete;

    uint64_t address(size_t offset) const { return address_ + offset; }
    ucp_rkey_h rkey() const { return rkey_; }

  private:
    uint64_t address_ = 0;
    ucp_rkey_h rkey_ = nullptr;
};

} // namespace ucptest
