// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The HCAs that a context uses, in the order in which peers number them.
#pragma once

#include "direct/hca.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gdr::direct {

class Hcas {
  public:
    // Opens those that can be used, and that take the memory of this GPU; -1: no matter which.
    explicit Hcas(CUdevice gpu);
    // None, for a reason.
    explicit Hcas(const char* obstacle) : obstacle_(obstacle) {}

    size_t size() const { return all_.size(); }
    Hca& operator[](size_t i) { return *all_[i]; }

    // Why there are none.
    const std::string& obstacle() const { return obstacle_; }

    // Those that are equally near to the GPU, and nearer than all others; -1: all.
    std::vector<unsigned> nearest(CUdevice gpu) const;

    // Registers memory with each. Throws std::exception.
    std::vector<verbs::MemoryRegion> register_memory(uintptr_t address, size_t length);

  private:
    std::vector<std::unique_ptr<Hca>> all_;
    std::string obstacle_;
};

} // namespace gdr::direct
