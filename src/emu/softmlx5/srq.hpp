// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A shared receive queue in the program's memory, over one of softhca's: a list of work requests,
// each of which names the next, and a record that counts those posted.
#pragma once

#include "emu/softmlx5/cq.hpp"

#include <cstdint>

namespace softmlx5 {

class Srq {
  public:
    Srq(ibv_srq& hca, std::uint64_t user_handle, const mlx5_ib_create_srq& memory,
        std::uint32_t max_sge);
    ~Srq();
    Srq(const Srq&) = delete;
    Srq& operator=(const Srq&) = delete;

    // Bytes from one request to the next: libmlx5 and the kernel agree on it by the number of
    // pieces.
    static std::size_t stride(std::uint32_t max_sge);

    ibv_srq& hca() { return hca_; }
    std::uint64_t user_handle() const { return user_handle_; }
    void count_event() { ++events_; }
    std::uint32_t events() const { return events_; }

    // Hands on what has been posted; false if nothing has.
    bool take_posted();

  private:
    ibv_srq& hca_;
    const std::uint64_t user_handle_;
    const std::uint8_t* const requests_;
    std::uint32_t* const record_;
    const std::size_t stride_;
    std::uint16_t next_ = 0; // its index
    std::uint16_t taken_ = 0;
    bool failed_ = false;
    std::uint32_t events_ = 0;
};

} // namespace softmlx5
