// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Copies work requests, and posts the copies.
#include "rc/post_chain.hpp"

#include "rc/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gdr::rc {

PostChain::PostChain(unsigned most_pieces, size_t max_inline)
    : most_pieces_(most_pieces), max_inline_(max_inline),
      requests_(std::make_unique<ibv_send_wr[]>(kLength)),
      pieces_(std::make_unique<ibv_sge[]>(size_t{kLength} * most_pieces)),
      inline_data_(std::make_unique<std::byte[]>(kLength * max_inline))
{
}

void PostChain::add(Endpoint& ep, const ibv_send_wr& wr, verbs::PostSend post_send)
{
    if (count_ == kLength || endpoint_ != &ep) {
        post(post_send);
    }
    endpoint_ = &ep;
    ibv_send_wr& copy = requests_[count_];
    ibv_sge* pieces = &pieces_[size_t{count_} * most_pieces_];
    copy = wr;
    copy.sg_list = pieces;
    if (wr.num_sge > 0 && (wr.send_flags & IBV_SEND_INLINE)) {
        std::byte* const data = &inline_data_[count_ * max_inline_];
        size_t length = 0;
        for (int i = 0; i < wr.num_sge; ++i) {
            const ibv_sge& piece = wr.sg_list[i];
            if (piece.length == 0) { // its address may be invalid
                continue;
            }
            std::memcpy(data + length, reinterpret_cast<const void*>(piece.addr), piece.length);
            length += piece.length;
        }
        *pieces = {reinterpret_cast<uintptr_t>(data), static_cast<uint32_t>(length), 0};
        copy.num_sge = 1;
    } else {
        std::copy_n(wr.sg_list, wr.num_sge, pieces);
    }
    if (count_ > 0) {
        requests_[count_ - 1].next = &copy;
    }
    ++count_;
}

void PostChain::post_all(verbs::PostSend post_send)
{
    count_ = 0;
    ibv_send_wr* refused = nullptr;
    if (int error = post_send(endpoint_->qp, requests_.get(), &refused); error != 0) [[unlikely]] {
        endpoint_->chain_refused(error, number_of(refused->wr_id));
    }
}

} // namespace gdr::rc
