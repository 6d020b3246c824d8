// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The work requests of short and buffered operations of an interface, apart from what differs
// between them. The provider library has read them, and what they point to, when a post returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>

namespace gdr::rc {

struct PreparedRequests {
    uint64_t header = 0; // of a short active message
    // Its header and payload; the payload may be empty.
    ibv_sge parts[2]{{reinterpret_cast<uintptr_t>(&header), sizeof(header), 0}, {}};
    ibv_send_wr short_message{};
    ibv_sge written{};
    ibv_send_wr short_write{};

    ibv_sge buffer{}; // one of SendBuffers, whose lkey is set
    ibv_send_wr message{};
    ibv_send_wr write{};
    ibv_send_wr read{};

    PreparedRequests()
    {
        prepare(short_message, IBV_WR_SEND_WITH_IMM, parts, 2);
        prepare(short_write, IBV_WR_RDMA_WRITE, &written);
        prepare(message, IBV_WR_SEND_WITH_IMM, &buffer);
        prepare(write, IBV_WR_RDMA_WRITE, &buffer);
        prepare(read, IBV_WR_RDMA_READ, &buffer);
    }
    PreparedRequests(const PreparedRequests&) = delete;
    PreparedRequests& operator=(const PreparedRequests&) = delete;

    void set_buffer(const std::byte* data, size_t length)
    {
        buffer.addr = reinterpret_cast<uintptr_t>(data);
        buffer.length = static_cast<uint32_t>(length);
    }

  private:
    static void prepare(ibv_send_wr& wr, ibv_wr_opcode opcode, ibv_sge* pieces, int count = 1)
    {
        wr.opcode = opcode;
        wr.sg_list = pieces;
        wr.num_sge = count;
    }
};

} // namespace gdr::rc
