// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Memory of a kind: host, host that only store() may write, CUDA device (of cuMemAlloc, a slice of
// an allocation of 64 MiB more, of a pool, of cuMemCreate, imported) or CUDA managed, all used
// through the same three calls.
#pragma once

#include <cstddef>
#include <string>

#include <ucs/memory/memory_type.h>

namespace ucptest {

enum class MemoryKind {
    kHost,
    kReadOnly,
    kCuda,
    kSlice,
    kPool,
    kVmm,
    kFabric,
    kImported,
    kSegments,
    kManaged
};

const char* name(MemoryKind kind);
MemoryKind memory_kind(const std::string& name); // throws Failure
ucs_memory_type_t ucs_type(MemoryKind kind);

// Owns one allocation, aligned to 256 bytes at least. Device memory is never touched by the CPU.
class Memory {
  public:
    Memory(MemoryKind kind, size_t size);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    MemoryKind kind() const { return kind_; }
    void* address(size_t offset = 0) const { return static_cast<char*>(address_) + offset; }
    size_t size() const { return size_; }

    void store(size_t offset, const void* source, size_t size);
    void load(void* target, size_t offset, size_t size) const;

  private:
    bool on_host() const { return ucs_type(kind_) == UCS_MEMORY_TYPE_HOST; }

    MemoryKind kind_;
    size_t size_;
    void* address_ = nullptr;
};

} // namespace ucptest
