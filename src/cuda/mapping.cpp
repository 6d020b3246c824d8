// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finds the neighbours of a mapping.
#include "cuda/mapping.hpp"

namespace gdr::cuda {

namespace {

std::optional<Pointer> mapping_at(const Driver& driver, const Pointer& other, uintptr_t address)
{
    if (!other.mapped || address - other.reserved >= other.reserved_length) {
        return std::nullopt;
    }
    Pointer found = classify(driver, reinterpret_cast<const void*>(address));
    if (!found.mapped || found.device != other.device) {
        return std::nullopt;
    }
    return found;
}

} // namespace

std::optional<Pointer> mapping_after(const Driver& driver, const Pointer& one)
{
    return mapping_at(driver, one, one.end());
}

std::optional<Pointer> mapping_before(const Driver& driver, const Pointer& one)
{
    return mapping_at(driver, one, one.base - 1);
}

} // namespace gdr::cuda
