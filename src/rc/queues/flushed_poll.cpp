// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/queues/flushed_poll.hpp"

#include "log/log.hpp"
#include "mem/rdma_writes.hpp"
#include "mlx5/queues.hpp"

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
            "cuFlushGPUDirectRDMAWrites failed: %s: kernels may read old bytes where messages have "
            "arrived, so results may be wrong",
            cuda::error_text(*cuda::open_driver(), result).c_str());
    }
}

int poll_lists(ibv_cq* cq, int most, ibv_wc* completions)
{
    return cq->context->ops.poll_cq(cq, most, completions);
}

template <int (*poll)(ibv_cq*, int, ibv_wc*)>
int flushed(ibv_cq* cq, int most, ibv_wc* completions)
{
    const int polled = poll(cq, most, completions);
    if (polled > 0) {
        flush();
    }
    return polled;
}

} // namespace

verbs::PollCq flushed_poll(verbs::PollCq poll)
{
    static constexpr struct {
        verbs::PollCq plain, flushes;
    } kPolls[] = {{verbs::poll_extended, flushed<verbs::poll_extended>},
                  {mlx5::Queues::poll_cq, flushed<mlx5::Queues::poll_cq>}};
    for (const auto& [plain, flushes] : kPolls) {
        if (poll == plain || poll == flushes) {
            return flushes;
        }
    }
    return flushed<poll_lists>;
}

} // namespace gdr::rc
