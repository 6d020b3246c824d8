// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What was lately told of device memory. UCP asks three times and more about each buffer; an
// allocation that is still what it was is known again by its buffer id.
#pragma once

#include "abi/memory_domain.hpp"
#include "cuda/pointer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gdr::copy::detected_memory {

// What this thread was told of memory that holds [address, address + length), if nothing has
// changed since. One call of the driver where the address was remembered, none elsewhere. Any
// thread.
std::optional<abi::MemoryInfo> find(const void* address, size_t length);

// The answer to a question about an address. Memory of a context alone is remembered: that of a
// pool and of cuMemCreate is told of differently from one address to the next. changes:
// mem::Cache::changes() before the answer was found.
void remember(const void* address, const cuda::Pointer& memory, const abi::MemoryInfo& info,
              uint64_t changes);

// Whether this thread was never told of this allocation, or has forgotten it: another may have been
// there before. Always where several of cuMemCreate's mappings are told of, and afterwards once for
// each mapping, as long as nobody tells of what is unmapped: what lies behind the first may be
// another each time.
bool is_news(const cuda::Pointer& memory, const abi::MemoryInfo& info);

} // namespace gdr::copy::detected_memory
