// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an interface may assume of the memory that UCP passes to it.
#pragma once

namespace gdr::rc {

class MemoryDomain;

struct MemoryRules {
    explicit MemoryRules(const MemoryDomain& domain);

    const bool any_memory;      // short puts and buffered gets check the memory type
    const bool clears_behind;   // clears what UCP reads behind a ready-to-send
    const bool untyped_shorts;  // UCP may pass short operations without checking the memory type
    const bool keep_host_pages; // host memory may be remembered
};

} // namespace gdr::rc
