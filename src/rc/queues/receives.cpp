// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Lays out, holds and releases receive buffers.
#include "rc/queues/receives.hpp"

namespace gdr::rc {
namespace {

size_t round_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

} // namespace

ReceiveLayout::ReceiveLayout(size_t segment_size, size_t headroom, size_t alignment,
                             size_t align_offset)
    : segment_size_(static_cast<uint32_t>(segment_size)), headroom_(headroom),
      // data + align_offset is a multiple of alignment, with room for a pointer and the headroom
      // before it
      offset_(round_up(sizeof(void*) + headroom + align_offset, alignment) - align_offset),
      stride_(round_up(offset_ + segment_size, alignment))
{
}

void ReceiveLayout::place(Receive& receive, std::byte* buffer, uint32_t lkey) const
{
    std::byte* const data = buffer + offset_;
    receive.sge = {reinterpret_cast<uintptr_t>(data), segment_size_, lkey};
    receive.wr = {receive.id(), nullptr, &receive.sge, 1};
}

void ReceiveLayout::let_keep(Receive& receive) const
{
    reinterpret_cast<uct_recv_desc_t**>(receive.data() - headroom_)[-1] = &receive.recv_desc;
}

void Receives::open(ReceiveQueues& queues, unsigned batch, bool may_be_kept)
{
    queues_ = &queues;
    batch_ = static_cast<int>(batch);
    more_free_ = batch_ - 1;
    keep_flag_ = may_be_kept ? UCT_CB_PARAM_FLAG_DESC : 0;
}

void Receives::add(Receive* receives, unsigned count)
{
    for (unsigned i = count; i-- > 0;) {
        receives[i].recv_desc.cb = release;
        receives[i].owner = this;
        (void)add_free(&receives[i]);
    }
    length_ += count;
    post_free();
}

void Receives::hold()
{
    if (++held_ >= length_ / 2) {
        queues_->grow(size_t{length_} * 2);
        keep_flag_ = held_ < length_ / 2 ? UCT_CB_PARAM_FLAG_DESC : 0;
    }
}

void Receives::release(uct_recv_desc_t* self, void*)
{
    auto* receive = reinterpret_cast<Receive*>(self);
    Receives& receives = *receive->owner;
    if (--receives.held_ < receives.length_ / 4) {
        receives.keep_flag_ = UCT_CB_PARAM_FLAG_DESC;
    }
    receives.put(receive);
}

void Receives::post_free()
{
    free_ = queues_->post(free_);
    more_free_ = batch_ - 1;
    for (const ibv_recv_wr* wr = free_; wr != nullptr; wr = wr->next) {
        --more_free_;
    }
}

} // namespace gdr::rc
