// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Host memory that an interface's own buffers live in: mapped and registered once.
#pragma once

#include "verbs/handles.hpp"

#include <cstddef>

namespace gdr::rc {

class RegisteredMemory {
  public:
    RegisteredMemory() = default;

    // Zeroed, page aligned; transparent huge pages are asked for. Throws verbs::Error.
    RegisteredMemory(ibv_pd* pd, size_t size);

    std::byte* data() const { return data_.get(); }
    uint32_t lkey() const { return mr_->lkey; }

  private:
    struct Unmap {
        size_t size;
        void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Unmap> data_;
    verbs::MemoryRegion mr_; // after data_: deregistered before the memory goes
};

} // namespace gdr::rc
