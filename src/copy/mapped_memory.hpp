// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Small copies between host and device memory by the CPU, which accesses device memory through
// gdrcopy's library if it is installed. CUDA takes several microseconds for a copy of any size.
#pragma once

#include "cuda/driver.hpp"
#include "mem/cache.hpp"
#include "mem/memory_collector.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>

namespace gdr::copy {

// Used by one thread at a time. In the steady state a copy makes one driver call, which tells
// whether the memory is still the mapped one, and no system call; it takes no lock and allocates
// nothing.
class MappedMemory {
  public:
    // Stores to device memory reach about 7 GB/s, so longer copies would waste CPU time.
    static constexpr size_t kMostPut = size_t{64} * 1024;

    // NULL and the reason if gdrcopy cannot be used. most_got: bytes; longer reads are left to
    // CUDA.
    static std::unique_ptr<MappedMemory> open(const cuda::Driver& driver, size_t most_got,
                                              std::string* why_not);

    // False: nothing was copied, because one of the two addresses is not of that kind, or length is
    // too long, or the memory could not be mapped, which is not tried again. Throw cuda::Error.
    bool put(void* device, const void* host, size_t length);
    bool get(void* host, const void* device, size_t length);

  private:
    class Mapped;

    MappedMemory(const cuda::Driver& driver, size_t most_got, std::shared_ptr<mem::Cache> cache)
        : driver_(driver), most_got_(most_got), cache_(std::move(cache))
    {
    }

    Mapped map(const void* device, const void* host, size_t length);
    bool is_plain_host(const void* host, size_t length);
    void refuse(const void* device, const std::string& cause);

    const cuda::Driver& driver_;
    const size_t most_got_;
    const std::shared_ptr<mem::Cache> cache_; // shared by all interfaces of the process
    const mem::MemoryCollector collector_;
    std::unordered_set<uint64_t> refused_; // buffer ids
};

} // namespace gdr::copy
