// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// CUDA memory for ucx_perftest -m cuda and -m cuda-managed, which a UCX built without CUDA lacks.
//
//     untouched --apply()--> applied     ucx_perftest has our allocators
//         |                     |
//         |                     +--undo()--> untouched     a test's context is not as expected
//         |
//         +-----apply()--> refused       another program, or a table that is not as expected
//
// The structures are private to ucx_perftest. If they are not those of this UCX's series, one
// warning says so, and the program has the allocators that it had.
#pragma once

#include "host/change.hpp"

#include <optional>

namespace gdr::host {

class PerftestAllocators final : public ReversibleChange {
  public:
    // The name of ucx_perftest's table, a variable of the program.
    explicit constexpr PerftestAllocators(const char* table) : name_(table) {}

    // In the first call of a test: the rank of this process, or nothing, with a warning, if the
    // test's context is not as expected. Then the allocators are taken back.
    std::optional<unsigned> begin_test(const void* context);

  private:
    bool make() override;
    void take_back() override;

    const char* const name_;
    const void** table_ = nullptr;
    const void* device_before_ = nullptr; // of the slots
    const void* managed_before_ = nullptr;
};

PerftestAllocators& perftest_allocators();

} // namespace gdr::host
