// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A buffer of host memory or of a GPU's, and what is in it.
#pragma once

#include "cuda/context.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gdr::peer {

class Memory {
  public:
    // kind: "host", "device" or "managed". gpu: the PCI address of the one to take; the first one
    // if CUDA does not show that. Throws std::runtime_error.
    Memory(const std::string& kind, size_t length, const std::string& gpu);
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

    void* address() const { return address_; }
    size_t length() const { return length_; }
    const std::string& gpu() const { return gpu_; } // its PCI address; "none" for host memory

    // Bytes that the seed gives.
    void fill(uint64_t seed);
    // Whether the first bytes are those of the seed, and all others those of the seed before.
    bool has(uint64_t seed, size_t count, uint64_t before) const;

  private:
    std::vector<unsigned char> contents() const;

    const cuda::Driver* driver_ = nullptr; // of a GPU's memory
    std::optional<cuda::PrimaryContext> context_;
    size_t length_;
    std::string gpu_ = "none";
    std::vector<unsigned char> host_;
    void* address_ = nullptr;
};

// How many GPUs CUDA shows.
size_t gpus();

} // namespace gdr::peer
