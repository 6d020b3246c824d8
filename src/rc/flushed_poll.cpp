// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/flushed_poll.hpp"

#include "abi/host.hpp"
#include "mem/rdma_writes.hpp"

#include <atomic>

namespace gdr::rc {
namespace {

void flush()
{
    static std::atomic<bool> logged{false};
    const CUresult result = mem::RdmaWrites::instance().flush();
    if (result != CUDA_SUCCESS && !logged.exchange(true)) [[unlikely]] {
        gdr_log(
            error,
            "cuFlushGPUDirectRDMAWrites failed: %s: what runs on the GPU may not see what it has "
            "received",
            cuda::error_text(*cuda::open_driver(), result).c_str());
    }
}

int poll_lists(ibv_cq* cq, int most, ibv_wc* completions)
{
    const int polled = cq->context->ops.poll_cq(cq, most, completions);
    if (polled > 0) {
        flush();
    }
    return polled;
}

int poll_extended(ibv_cq* cq, int most, ibv_wc* completions)
{
    const int polled = verbs::poll_extended(cq, most, completions);
    if (polled > 0) {
        flush();
    }
    return polled;
}

} // namespace

verbs::PollCq flushed_poll(verbs::PollCq poll)
{
    return poll == verbs::poll_extended || poll == poll_extended ? poll_extended : poll_lists;
}

} // namespace gdr::rc
