// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A queue pair in the program's memory, over one of softhca's: a ring of receive work requests,
// behind it one of send work requests, and a record that counts what was posted to each.
#pragma once

#include "emu/softmlx5/cq.hpp"
#include "emu/softmlx5/send_request.hpp"
#include "emu/softmlx5/srq.hpp"

#include <cstdint>

namespace softmlx5 {

// What a CREATE_QP names.
struct QpRequest {
    std::uint64_t user_handle;
    ibv_qp_type type; // softhca's
    Pd* pd;
    Cq *send_cq, *recv_cq;
    Srq* srq; // null: none
    mlx5_ib_create_qp memory;
    std::uint8_t longest_in_cqe; // of messages

    std::size_t ring_bytes() const
    {
        return (std::size_t{memory.rq_wqe_count} << memory.rq_wqe_shift) +
               std::size_t{memory.sq_wqe_count} * MLX5_SEND_WQE_BB;
    }
};

class Qp {
  public:
    Qp(ibv_qp& hca, std::uint64_t user_handle, const mlx5_ib_create_qp& memory, Pd& pd,
       Cq& send_cq);
    ~Qp();
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    ibv_qp& hca() { return hca_; }
    std::uint64_t user_handle() const { return user_handle_; }
    std::uint32_t user_index() const { return user_index_; }
    std::uint8_t port() const { return port_; }
    void count_event() { ++events_; }
    std::uint32_t events() const { return events_; }

    int modify(ibv_qp_attr& attributes, int mask);
    // Notes what has been posted to send up to now: the receives posted before that come first.
    void look();
    // Hands on receives that have been posted, and the sends noted; false if there are none.
    bool take_receives();
    bool take_sends(Adapter& adapter);

  private:
    // Ends with an error what cannot be handed on.
    void fail(Adapter& adapter, const SendRequest& request, const char* what);

    ibv_qp& hca_;
    const std::uint64_t user_handle_;
    const std::uint32_t user_index_;
    std::uint32_t* const record_; // big-endian: MLX5_RCV_DBR, MLX5_SND_DBR
    const std::uint8_t* const receives_;
    const std::uint32_t receive_count_, receive_stride_;
    SendRing ring_;
    ibv_mr* ring_memory_ = nullptr;
    Pd& pd_;
    Cq& send_cq_;
    ibv_qp_state state_ = IBV_QPS_RESET; // that the program brought it into
    std::uint8_t port_ = 1;
    DcTarget target_; // of the latest request
    std::uint16_t receives_taken_ = 0, sends_taken_ = 0, sends_noted_ = 0;
    std::uint32_t events_ = 0;
};

} // namespace softmlx5
