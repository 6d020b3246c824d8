// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A receive work request in the program's memory: a scatter list that ends at a key of its own.
#pragma once

#include "emu/softhca/layout.hpp"
#include "emu/softmlx5/abi.hpp"
#include "emu/softmlx5/program_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <endian.h>

namespace softmlx5 {

struct RecvRequest {
    ibv_recv_wr wr;
    ibv_sge sge[softhca::kMaxSge];
    bool is_there; // the program has not unmapped it

    // The list has room for so many bytes.
    RecvRequest(std::uint64_t id, const std::uint8_t* from, std::size_t bytes) : wr{}
    {
        wr.wr_id = id;
        wr.sg_list = sge;
        mlx5_wqe_data_seg pieces[softhca::kMaxSge];
        const std::size_t most = std::min(bytes / sizeof *pieces, std::size(pieces));
        is_there = read_program(pieces, from, most * sizeof *pieces);
        for (std::size_t i = 0;
             is_there && i < most && be32toh(pieces[i].lkey) != MLX5_INVALID_LKEY; ++i) {
            if (pieces[i].byte_count != 0) {
                sge[wr.num_sge++] = {be64toh(pieces[i].addr), be32toh(pieces[i].byte_count),
                                     be32toh(pieces[i].lkey)};
            }
        }
    }
    RecvRequest(const RecvRequest&) = delete;
    RecvRequest& operator=(const RecvRequest&) = delete;
};

} // namespace softmlx5
