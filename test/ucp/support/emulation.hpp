// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What the emulated HCA and the emulated CUDA driver have counted in this process.
#pragma once

#include <cstdint>

#include "emu/softhca/softhca.h"

namespace ucptest {

// The header has a function of the same name.
using HcaCounters = struct softhca_counters;

class Emulation {
  public:
    // Call it after cuda::available().
    Emulation();

    bool has_hca() const { return hca_ != nullptr; }
    bool has_driver() const { return calls_ != nullptr && call_count_ != nullptr; }

    HcaCounters hca() const; // zero without one
    uint64_t registrations() const;
    uint64_t cuda_calls() const;
    uint64_t cuda_calls(const char* function) const; // by its exported name
    uint64_t attribute_queries() const; // cuPointerGetAttributes and cuPointerGetAttribute

  private:
    void (*hca_)(HcaCounters*);
    uint64_t (*calls_)() = nullptr;
    uint64_t (*call_count_)(const char*) = nullptr;
};

} // namespace ucptest
