// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A receive work request in the program's memory: a scatter list that ends at a key of its own.
#pragma once

#include "emu/softhca/layout.hpp"
#include "emu/softmlx5/abi.hpp"

#include <cstdint>

#include <endian.h>

namespace softmlx5 {

struct RecvRequest {
    ibv_recv_wr wr;
    ibv_sge sge[softhca::kMaxSge];

    // The list lies in [from, end).
    RecvRequest(std::uint64_t id, const std::uint8_t* from, const std::uint8_t* end) : wr{}
    {
        wr.wr_id = id;
        wr.sg_list = sge;
        const auto* piece = reinterpret_cast<const mlx5_wqe_data_seg*>(from);
        const auto* const last = reinterpret_cast<const mlx5_wqe_data_seg*>(end);
        for (; piece < last && be32toh(piece->lkey) != MLX5_INVALID_LKEY &&
               wr.num_sge < static_cast<int>(softhca::kMaxSge);
             ++piece) {
            if (piece->byte_count != 0) {
                sge[wr.num_sge++] = {be64toh(piece->addr), be32toh(piece->byte_count),
                                     be32toh(piece->lkey)};
            }
        }
    }
    RecvRequest(const RecvRequest&) = delete;
    RecvRequest& operator=(const RecvRequest&) = delete;
};

} // namespace softmlx5
