// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Queue pairs, see qp.hpp.
#include "emu/softmlx5/qp.hpp"

#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/adapter.hpp"
#include "emu/softmlx5/recv_request.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

namespace softmlx5 {
namespace {

std::uint16_t counter_in(std::uint32_t* record, unsigned word)
{
    return static_cast<std::uint16_t>(
        be32toh(std::atomic_ref(record[word]).load(std::memory_order_acquire)));
}

} // namespace

Qp::Qp(ibv_qp& hca, std::uint64_t user_handle, const mlx5_ib_create_qp& memory, Pd& pd, Cq& send_cq)
    : hca_(hca), user_handle_(user_handle), user_index_(memory.uidx & 0xffffff),
      record_(reinterpret_cast<std::uint32_t*>(memory.db_addr)),
      receives_(reinterpret_cast<const std::uint8_t*>(memory.buf_addr)),
      receive_count_(memory.rq_wqe_count),
      receive_stride_(1u << memory.rq_wqe_shift), ring_{reinterpret_cast<std::uint8_t*>(
                                                            memory.buf_addr) +
                                                            std::size_t{memory.rq_wqe_count} *
                                                                receive_stride_,
                                                        memory.sq_wqe_count},
      pd_(pd), send_cq_(send_cq)
{
    if (ring_.blocks != 0) {
        // Inline data is read where the program has put it.
        ring_memory_ = softhca::register_memory(&pd.hca(), ring_.start, ring_.bytes(),
                                                reinterpret_cast<std::uint64_t>(ring_.start), 0);
        if (ring_memory_ == nullptr) {
            throw std::system_error(errno, std::generic_category());
        }
    }
}

Qp::~Qp()
{
    softhca::destroy_qp(&hca_);
    if (ring_memory_ != nullptr) {
        softhca::deregister(ring_memory_);
    }
}

int Qp::modify(ibv_qp_attr& attributes, int mask)
{
    const int error = softhca::modify_qp(&hca_, &attributes, mask);
    if (error == 0 && (mask & IBV_QP_PORT) != 0) {
        port_ = attributes.port_num;
    }
    if (error == 0 && (mask & IBV_QP_STATE) != 0) {
        state_ = attributes.qp_state;
        if (state_ == IBV_QPS_RESET) {
            receives_taken_ = sends_taken_ = sends_noted_ = 0;
            target_ = {};
            // As libmlx5 does afterwards. UCX leaves it to its next doorbell, for which an adapter
            // waits.
            for (const unsigned word : {MLX5_RCV_DBR, MLX5_SND_DBR}) {
                std::atomic_ref(record_[word]).store(0, std::memory_order_release);
            }
        }
    }
    return error;
}

void Qp::look()
{
    if (ring_.blocks != 0 && state_ >= IBV_QPS_RTS) {
        sends_noted_ = counter_in(record_, MLX5_SND_DBR);
    }
}

bool Qp::take_receives()
{
    if (receive_count_ == 0 || state_ == IBV_QPS_RESET) {
        return false;
    }
    const std::uint16_t posted = counter_in(record_, MLX5_RCV_DBR);
    const bool some = receives_taken_ != posted;
    for (; receives_taken_ != posted; ++receives_taken_) {
        const std::uint8_t* const request =
            receives_ + std::size_t{receives_taken_ & (receive_count_ - 1)} * receive_stride_;
        RecvRequest receive(receives_taken_, request, request + receive_stride_);
        ibv_recv_wr* bad;
        if (const int error = softhca::post_recv(&hca_, &receive.wr, &bad)) {
            std::fprintf(stderr, "softmlx5: QP 0x%x fails: its receive %u cannot be posted: %s\n",
                         hca_.qp_num, receives_taken_,
                         std::generic_category().message(error).c_str());
            ibv_qp_attr attributes = {};
            attributes.qp_state = IBV_QPS_ERR;
            modify(attributes, IBV_QP_STATE);
            receives_taken_ = posted;
            break;
        }
    }
    return some;
}

bool Qp::take_sends(Adapter& adapter)
{
    const bool some = sends_taken_ != sends_noted_;
    while (sends_taken_ != sends_noted_) {
        constexpr unsigned most = 16;
        std::array<SendRequest, most> requests;
        unsigned count = 0;
        const char* wrong = nullptr;
        while (count < most && sends_taken_ != sends_noted_ && wrong == nullptr) {
            SendRequest& request = requests[count];
            wrong =
                request.read(ring_, sends_taken_, hca_, port_, ring_memory_->lkey, pd_, target_);
            if (wrong == nullptr) {
                if (count > 0) {
                    requests[count - 1].wr.next = request.first();
                }
                ++count;
            }
            sends_taken_ = static_cast<std::uint16_t>(sends_taken_ + request.blocks);
        }
        ibv_send_wr* bad = nullptr;
        if (count > 0) {
            if (const int error = softhca::post_send(&hca_, requests[0].first(), &bad)) {
                for (unsigned i = 0; i < count; ++i) {
                    if (bad == &requests[i].wr || bad == &requests[i].connect) {
                        fail(adapter, requests[i], std::generic_category().message(error).c_str());
                    }
                }
            }
        }
        if (wrong != nullptr) {
            fail(adapter, requests[count], wrong);
        }
    }
    return some;
}

void Qp::fail(Adapter& adapter, const SendRequest& request, const char* what)
{
    const RequestId id(request.wr.wr_id);
    std::fprintf(stderr, "softmlx5: QP 0x%x fails: its work request %u (opcode 0x%x) %s\n",
                 hca_.qp_num, id.counter, id.opcode, what);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    modify(attributes, IBV_QP_STATE);
    while (send_cq_.collect(adapter)) { // those before it
    }
    mlx5_cqe64 entry = {};
    entry.srqn_uidx = htobe32(user_index_);
    entry.sop_drop_qpn = htobe32(std::uint32_t{id.opcode} << 24 | hca_.qp_num);
    entry.wqe_counter = htobe16(id.counter);
    send_cq_.append(entry, MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
}

} // namespace softmlx5
