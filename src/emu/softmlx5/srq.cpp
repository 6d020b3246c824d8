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
#include <cstring>

namespace softmlx5 {

// libmlx5 and the kernel agree on the stride by the number of pieces alone.
Srq::Srq(ibv_srq& hca, std::uint64_t user_handle, const mlx5_ib_create_srq& memory,
         std::uint32_t max_sge)
    : hca_(hca), user_handle_(user_handle),
      requests_(reinterpret_cast<const std::uint8_t*>(memory.buf_addr)),
      record_(reinterpret_cast<std::uint32_t*>(memory.db_addr)),
      stride_(static_cast<std::uint32_t>(std::bit_ceil(std::max<std::size_t>(
          sizeof(mlx5_wqe_srq_next_seg) + max_sge * sizeof(mlx5_wqe_data_seg), 32))))
{
}

Srq::~Srq()
{
    softhca::destroy_srq(&hca_);
}

bool Srq::take_posted()
{
    const auto posted = static_cast<std::uint16_t>(
        be32toh(std::atomic_ref(*record_).load(std::memory_order_acquire)));
    const bool some = taken_ != posted && !failed_;
    while (taken_ != posted && !failed_) {
        const std::uint8_t* const request = requests_ + std::size_t{next_} * stride_;
        RecvRequest receive(next_, request + sizeof(mlx5_wqe_srq_next_seg), request + stride_);
        ibv_recv_wr* bad;
        if (const int error = softhca::post_srq_recv(&hca_, &receive.wr, &bad)) {
            std::fprintf(stderr,
                         "softmlx5: SRQ %u takes no more receives: number %u cannot be posted: "
                         "%s\n",
                         hca_.handle, next_, std::strerror(error));
            failed_ = true;
        }
        next_ = be16toh(reinterpret_cast<const mlx5_wqe_srq_next_seg*>(request)->next_wqe_index);
        ++taken_;
    }
    return some;
}

} // namespace softmlx5
