// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/endpoints.hpp"

#include <stdexcept>

namespace gdr::rc {

uint64_t Endpoints::add(Endpoint* ep)
{
    uint32_t index;
    if (free_.empty()) {
        index = static_cast<uint32_t>(slots_.size());
        if (index >= 1u << kSlotBits) {
            throw std::runtime_error("too many endpoints on one interface");
        }
        slots_.emplace_back().name_ = uint64_t{index} << kIdShift;
    } else {
        index = free_.back();
        free_.pop_back();
    }
    Slot& slot = slots_[index];
    slot.endpoint_ = ep;
    slot.name_ |= kSendBit;
    return slot.name_ >> kIdShift;
}

void Endpoints::remove(uint64_t id)
{
    const uint32_t index = slot_of(wr_id_of(id));
    Slot& slot = slots_[index];
    slot.endpoint_ = nullptr;
    constexpr uint64_t kNames = (uint64_t{1} << (kGenerationShift + kGenerationBits)) - 1;
    slot.name_ = (slot.name_ + (uint64_t{1} << kGenerationShift)) & kNames & ~kSendBit;
    free_.push_back(index);
}

} // namespace gdr::rc
