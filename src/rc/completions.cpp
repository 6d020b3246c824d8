// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/completions.hpp"

#include "rc/queues/flushed_poll.hpp"
#include "rc/queues/provider.hpp"

namespace gdr::rc {
namespace {

// So many are saved without an allocation.
constexpr size_t kUsuallySaved = 64;

} // namespace

void Completions::open(Provider& provider, ibv_comp_channel* channel, unsigned first, unsigned most,
                       bool may_resize)
{
    room_.emplace(provider, channel, first, most, may_resize);
    queue_ = room_->cq();
    poll_ = provider.poll_cq();
    saved_.reserve(kUsuallySaved);
    spare_.reserve(kUsuallySaved);
}

void Completions::flush_gpu_writes()
{
    poll_ = flushed_poll(poll_);
}

void Completions::save(const ibv_wc& completion)
{
    saved_.push_back(completion);
    attention_.want();
}

void Completions::save_all()
{
    ibv_wc completion;
    while (poll(1, &completion) > 0) {
        save(completion);
    }
}

} // namespace gdr::rc
