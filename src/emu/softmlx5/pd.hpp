// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A protection domain, and the address handles that softhca needs for the addresses which datagrams
// here bring along.
#pragma once

#include "emu/softmlx5/abi.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace softmlx5 {

class Pd {
  public:
    explicit Pd(ibv_pd& hca) : hca_(hca) {}
    ~Pd();
    Pd(const Pd&) = delete;
    Pd& operator=(const Pd&) = delete;

    ibv_pd& hca() { return hca_; }
    bool is_used() const; // by other objects
    // The same for the same address; null: the port does not take it. Long: it may have a route.
    ibv_ah* address_handle(std::uint8_t port, const mlx5_wqe_av& address, bool is_long);

  private:
    // The port, and of an address what is behind the queue pair's number.
    using Key =
        std::array<std::uint8_t, 1 + sizeof(mlx5_wqe_av) - offsetof(mlx5_wqe_av, stat_rate_sl)>;

    ibv_pd& hca_;
    std::map<Key, ibv_ah*> handles_;
};

} // namespace softmlx5
