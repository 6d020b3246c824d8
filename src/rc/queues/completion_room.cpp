// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates and resizes an interface's completion queue.
#include "rc/queues/completion_room.hpp"

#include "log/log.hpp"
#include "mem/locked_memory.hpp"
#include "rc/queues/provider.hpp"
#include "verbs/error.hpp"

#include <algorithm>

namespace gdr::rc {

CompletionRoom::CompletionRoom(Provider& provider, ibv_comp_channel* channel, unsigned first,
                               unsigned most, bool may_resize)
    : most_(most), cq_(provider.create_cq(may_resize ? std::max(first / 2, 1u) : most, channel))
{
    if (!may_resize) {
        return;
    }
    // Only a real queue shows whether the HCA can resize it.
    if (int error = ibv_resize_cq(cq_.get(), static_cast<int>(first)); error != 0) {
        gdr_log(diag, "%s: ibv_resize_cq: %s: the completion queue has %u entries from the start",
                ibv_get_device_name(cq_->context->device), verbs::errno_text(error).c_str(), most);
        cq_.reset();
        cq_ = provider.create_cq(most, channel);
    }
}

bool CompletionRoom::take(unsigned count)
{
    if (count > left()) {
        return false;
    }
    const unsigned wanted = taken_ + count;
    if (wanted > entries()) {
        const unsigned next = std::min(std::max(wanted, entries() * 2), most_);
        if (int error = ibv_resize_cq(cq_.get(), static_cast<int>(next)); error != 0) {
            most_ = entries();
            gdr_log(warn,
                    "%s: the completion queue keeps its %u entries, %u were wanted, which costs "
                    "speed with many peers: ibv_resize_cq: %s%s",
                    ibv_get_device_name(cq_->context->device), most_, next,
                    verbs::errno_text(error).c_str(), mem::locked_memory_hint(error).c_str());
            return false;
        }
    }
    taken_ = wanted;
    return true;
}

} // namespace gdr::rc
