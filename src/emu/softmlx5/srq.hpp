// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A shared receive queue in the program's memory, over one of softhca's: a list of work requests,
// each of which names the next, and a record that counts those posted.
#pragma once

#include "emu/softmlx5/cq.hpp"

#include <cstdint>

namespace softmlx5 {

struct SrqMemory {
    std::uint64_t requests, record;
    std::size_t stride; // bytes from one request to the next
    std::uint32_t entries;
    bool is_ring; // they follow one another, and the names of the next do not count
};

// What a CREATE_SRQ, or one of an RMP, names.
struct SrqRequest {
    std::uint64_t user_handle;
    std::uint32_t max_wr, max_sge, limit;
    SrqMemory memory;
};

class Srq {
  public:
    Srq(ibv_srq& hca, std::uint64_t user_handle, const SrqMemory& memory);
    ~Srq();
    Srq(const Srq&) = delete;
    Srq& operator=(const Srq&) = delete;

    // libmlx5 and the kernel agree on it by the number of pieces.
    static std::size_t stride(std::uint32_t max_sge);

    ibv_srq& hca() { return hca_; }
    // By which queue pairs and programs name it: for UCX zero is none.
    std::uint32_t number() const { return hca_.handle + 1; }
    std::uint64_t user_handle() const { return user_handle_; }
    void count_event() { ++events_; }
    std::uint32_t events() const { return events_; }

    // Hands on what has been posted; false if nothing has.
    bool take_posted();

  private:
    ibv_srq& hca_;
    const std::uint64_t user_handle_;
    const SrqMemory memory_;
    std::uint32_t next_ = 0; // its index
    std::uint16_t taken_ = 0;
    bool failed_ = false;
    std::uint32_t events_ = 0;
};

} // namespace softmlx5
