// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Posts receives.
#include "mlx5/shared_receive_queue.hpp"

#include "mlx5/barriers.hpp"

#include <cerrno>

#include <endian.h>

namespace gdr::mlx5 {
namespace {

constexpr uint32_t kNoKey = 0x100; // of the piece behind the last

} // namespace

SharedReceiveQueue::SharedReceiveQueue(const mlx5dv_srq& srq)
    : ring_(static_cast<std::byte*>(srq.buf)), stride_(srq.stride),
      record_(reinterpret_cast<volatile uint32_t*>(srq.dbrec)),
      head_(static_cast<uint16_t>(srq.head)), tail_(static_cast<uint16_t>(srq.tail)),
      wr_ids_(std::make_unique<uint64_t[]>(size_t{srq.tail} + 1)) // it is the last at first
{
    const bool has_more = stride_ > sizeof(mlx5_wqe_srq_next_seg) + sizeof(mlx5_wqe_data_seg);
    for (unsigned entry = 0; has_more && entry <= srq.tail; ++entry) {
        pieces_of(static_cast<uint16_t>(entry))[1] = {0, htobe32(kNoKey), 0};
    }
}

int SharedReceiveQueue::post(ibv_recv_wr* wr, ibv_recv_wr** refused)
{
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        if (head_ == tail_) [[unlikely]] {
            *refused = wr;
            error = ENOMEM;
            break;
        }
        wr_ids_[head_] = wr->wr_id;
        mlx5_wqe_data_seg* piece = pieces_of(head_);
        piece->byte_count = htobe32(wr->sg_list->length);
        piece->lkey = htobe32(wr->sg_list->lkey);
        piece->addr = htobe64(wr->sg_list->addr);
        head_ = be16toh(next_of(head_).next_wqe_index);
        ++posted_;
    }
    order_stores();
    *record_ = htobe32(posted_);
    return error;
}

} // namespace gdr::mlx5
