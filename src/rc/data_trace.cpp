// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/data_trace.hpp"

#include "log/log.hpp"
#include "rc/connect/wire.hpp"
#include "rc/queues/flushed_poll.hpp"
#include "rc/work_requests.hpp"

#include <arpa/inet.h>
#include <cinttypes>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace gdr::rc {
namespace {

const char* name(ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
        return "RDMA WRITE";
    case IBV_WR_RDMA_READ:
        return "RDMA READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "compare-and-swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "fetch-and-add";
    default:
        return "SEND";
    }
}

size_t length(const ibv_send_wr& wr)
{
    size_t all = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        all += wr.sg_list[i].length;
    }
    return all;
}

// The contexts of completion queues are not ours: src/mlx5 has them.
struct Traces {
    std::mutex lock;
    std::unordered_map<const ibv_cq*, const DataTrace*> by_cq;
};

Traces& traces()
{
    static Traces instance;
    return instance;
}

const DataTrace& trace_of(const ibv_cq* cq)
{
    const std::lock_guard guard(traces().lock);
    return *traces().by_cq.at(cq);
}

} // namespace

DataTrace::DataTrace(Poster& poster, Completions& completions, std::string port)
    : port_(std::move(port)), cq_(completions.queue()), post_(poster.post_by(post)),
      poll_(completions.poll_by(poll))
{
    const std::lock_guard guard(traces().lock);
    traces().by_cq.emplace(cq_, this);
}

DataTrace::~DataTrace()
{
    const std::lock_guard guard(traces().lock);
    traces().by_cq.erase(cq_);
}

void DataTrace::flush_gpu_writes()
{
    poll_ = flushed_poll(poll_);
}

int DataTrace::post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** refused)
{
    const DataTrace& trace = trace_of(qp->send_cq);
    for (const ibv_send_wr* each = wr; each != nullptr; each = each->next) {
        trace.log_request(*qp, *each);
    }
    return trace.post_(qp, wr, refused);
}

int DataTrace::poll(ibv_cq* cq, int most, ibv_wc* completions)
{
    const DataTrace& trace = trace_of(cq);
    const int polled = trace.poll_(cq, most, completions);
    for (int i = 0; i < polled; ++i) {
        trace.log_completion(completions[i]);
    }
    return polled;
}

void DataTrace::log_request(const ibv_qp& qp, const ibv_send_wr& wr) const
{
    const bool sends = wr.opcode == IBV_WR_SEND_WITH_IMM;
    const bool atomic =
        wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const uint64_t address = sends    ? ntohl(wr.imm_data) & kAmIdMask
                             : atomic ? wr.wr.atomic.remote_addr
                                      : wr.wr.rdma.remote_addr;
    gdr_log(data, "%s QP 0x%x posts %u: %s of %zu bytes, %s 0x%" PRIx64 "%s%s%s%s", port_.c_str(),
            qp.qp_num, number_of(wr.wr_id), name(wr.opcode), length(wr),
            sends ? "active message" : "remote address", address,
            sends && (ntohl(wr.imm_data) & kWindowRequest) ? ", requests a window" : "",
            wr.send_flags & IBV_SEND_INLINE ? ", inline" : "",
            wr.send_flags & IBV_SEND_FENCE ? ", fenced" : "",
            wr.send_flags & IBV_SEND_SIGNALED ? ", signalled" : "");
}

void DataTrace::log_completion(const ibv_wc& wc) const
{
    if (wc.status != IBV_WC_SUCCESS) {
        gdr_log(data, "%s QP 0x%x: %s fails: %s", port_.c_str(), wc.qp_num,
                wc.wr_id & kSendBit ? "a send" : "a receive", ibv_wc_status_str(wc.status));
    } else if (wc.wr_id & kAcceptedBit && wc.wr_id & kSendBit) {
        gdr_log(data, "%s QP 0x%x has granted a window", port_.c_str(), wc.qp_num);
    } else if (wc.wr_id & kSendBit) {
        gdr_log(data, "%s QP 0x%x completes up to %u", port_.c_str(), wc.qp_num,
                number_of(wc.wr_id));
    } else if (ntohl(wc.imm_data) & kWindowGrant) {
        gdr_log(data, "%s QP 0x%x is granted a window", port_.c_str(), wc.qp_num);
    } else {
        gdr_log(data, "%s QP 0x%x receives active message 0x%x of %u bytes", port_.c_str(),
                wc.qp_num, ntohl(wc.imm_data) & kAmIdMask, wc.byte_len);
    }
}

} // namespace gdr::rc
