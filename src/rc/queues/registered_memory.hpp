// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Host memory for an interface's own buffers, mapped and registered once.
#pragma once

#include "verbs/handles.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace gdr::rc {

// The text of an error, with the limit of locked memory if that may be the cause.
std::string cause_of(const std::exception& error);

class RegisteredMemory {
  public:
    RegisteredMemory() = default;

    // Zeroed, page aligned; asks for transparent huge pages. Throws verbs::Error.
    RegisteredMemory(ibv_pd* pd, size_t size);

    // Room for *count pieces of so many bytes. *count is halved as the limit of locked memory
    // demands, down to fewest. For the warning, what names the pieces and variable the setting that
    // asked for them. Throws verbs::Error.
    static RegisteredMemory for_as_many(ibv_pd* pd, size_t piece, unsigned fewest, unsigned* count,
                                        const char* what, const char* variable);

    std::byte* data() const { return data_.get(); }
    uint32_t lkey() const { return mr_->lkey; }

  private:
    struct Unmap {
        size_t size;
        void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Unmap> data_;
    verbs::MemoryRegion mr_; // after data_: deregistered before the memory is unmapped
};

} // namespace gdr::rc
