// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Recent answers about device memory. UCP asks at least three times about each buffer; the buffer
// id shows that an allocation is still the same.
#pragma once

#include "abi/memory_domain.hpp"
#include "cuda/pointer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace gdr::copy::detected_memory {

// What this thread was told about memory that holds [address, address + length), if nothing has
// changed since. Costs one driver call if the address is remembered, else none. Any thread.
std::optional<abi::MemoryInfo> find(const void* address, size_t length);

// Remembers the answer to a query of an address. Remembers only memory of a context: for pools and
// cuMemCreate the answer differs from one address to the next. changes: mem::Cache::changes()
// before the answer was found.
void remember(const void* address, const cuda::Pointer& memory, const abi::MemoryInfo& info,
              uint64_t changes);

// Whether this thread was never told of this allocation or has forgotten it: another allocation may
// have been there before. If frees are not reported, always true for answers that span several
// mappings of cuMemCreate, and afterwards once for each mapping, because the memory behind the
// first mapping may be different each time.
bool is_unknown(const cuda::Pointer& memory, const abi::MemoryInfo& info);

} // namespace gdr::copy::detected_memory
