// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A send work request as libmlx5 or a program of its own writes it (WQE), read into one of
// softhca's.
#pragma once

#include "emu/softhca/layout.hpp"
#include "emu/softmlx5/pd.hpp"
#include "emu/softmlx5/ring.hpp"

#include <cstdint>

namespace softmlx5 {

// A send work request's wr_id at softhca: what its completion has to tell.
struct RequestId {
    std::uint16_t counter; // of the ring's blocks
    std::uint8_t opcode;

    RequestId(std::uint16_t block, std::uint8_t code) : counter(block), opcode(code) {}
    explicit RequestId(std::uint64_t id)
        : counter(static_cast<std::uint16_t>(id)), opcode(static_cast<std::uint8_t>(id >> 16))
    {
    }
    std::uint64_t value() const { return std::uint64_t{opcode} << 16 | counter; }

    // A request that the adapter posts for itself; no program hears of it.
    static constexpr std::uint64_t kInternal = std::uint64_t{1} << 63;
};

// Whom a DC initiator's requests are for.
struct DcTarget {
    ibv_ah* address = nullptr;
    std::uint32_t number = 0;
    std::uint64_t key = 0;

    bool operator==(const DcTarget&) const = default;
};

struct SendRequest {
    ibv_send_wr wr;
    ibv_send_wr connect; // of a DC initiator, to come before
    bool connects;       // to another target than the one before
    ibv_sge sge[softhca::kMaxSge];
    ibv_mw window;        // that it binds
    ibv_mr region;        // to a part of this
    std::uint16_t blocks; // that it takes in the ring
    std::uint8_t opcode;

    // Reads the request at this counter of a queue pair that sends by a port. Inline data is left
    // in the ring, which `ring_key` covers. `target` is that of the request before, and becomes
    // this one's. Null, or what is wrong.
    const char* read(const SendRing& ring, std::uint16_t counter, const ibv_qp& qp,
                     std::uint8_t port, std::uint32_t ring_key, Pd& pd, DcTarget& target);
    ibv_send_wr* first() { return connects ? &connect : &wr; }

  private:
    const char* read_address(const Wqe& wqe, std::size_t& offset, bool is_datagram,
                             std::uint8_t port, Pd& pd, DcTarget& target);
    void read_operation(const Wqe& wqe, std::size_t& offset);
    void read_binding(const Wqe& wqe, std::size_t offset, std::uint32_t key, Pd& pd);
    const char* read_data(const Wqe& wqe, std::size_t offset, std::size_t end,
                          std::uint32_t ring_key);
    bool add(std::uint64_t address, std::uint32_t length, std::uint32_t key);
};

} // namespace softmlx5
