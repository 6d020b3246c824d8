// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Shared receive queues, see srq.hpp.
#include "emu/softmlx5/srq.hpp"

#include "emu/softhca/ops.hpp"
#include "emu/softmlx5/recv_request.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <system_error>

namespace softmlx5 {

std::size_t Srq::stride(std::uint32_t max_sge)
{
    return std::bit_ceil(std::max<std::size_t>(
        sizeof(mlx5_wqe_srq_next_seg) + max_sge * sizeof(mlx5_wqe_data_seg), 32));
}

Srq::Srq(ibv_srq& hca, std::uint64_t user_handle, const SrqMemory& memory)
    : hca_(hca), user_handle_(user_handle), memory_(memory)
{
}

Srq::~Srq()
{
    softhca::destroy_srq(&hca_);
}

bool Srq::take_posted()
{
    auto& record = *reinterpret_cast<std::uint32_t*>(memory_.record);
    const auto posted = static_cast<std::uint16_t>(
        be32toh(std::atomic_ref(record).load(std::memory_order_acquire)));
    const bool some = taken_ != posted && !failed_;
    while (taken_ != posted && !failed_) {
        const auto* const request =
            reinterpret_cast<const std::uint8_t*>(memory_.requests) + next_ * memory_.stride;
        const auto* const link = reinterpret_cast<const mlx5_wqe_srq_next_seg*>(request);
        RecvRequest receive(next_, request + sizeof *link, request + memory_.stride);
        ibv_recv_wr* bad;
        if (const int error = softhca::post_srq_recv(&hca_, &receive.wr, &bad)) {
            std::fprintf(stderr,
                         "softmlx5: SRQ %u takes no more receives: number %u cannot be posted: "
                         "%s\n",
                         hca_.handle, next_, std::generic_category().message(error).c_str());
            failed_ = true;
        }
        next_ =
            (memory_.is_ring ? next_ + 1 : be16toh(link->next_wqe_index)) & (memory_.entries - 1);
        ++taken_;
    }
    return some;
}

} // namespace softmlx5
