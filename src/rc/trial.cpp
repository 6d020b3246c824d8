// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making one of each kind of queue.
#include "rc/trial.hpp"

#include "rc/handshake_channel.hpp"
#include "verbs/completion_queue.hpp"
#include "verbs/error.hpp"

namespace gdr::rc {
namespace {

constexpr uint32_t kQkey = 1; // nobody is told

verbs::SharedReceiveQueue make_srq(ibv_pd* pd)
{
    ibv_srq_init_attr init{};
    init.attr.max_wr = init.attr.max_sge = 1;
    verbs::SharedReceiveQueue srq(ibv_create_srq(pd, &init));
    if (!srq) {
        throw verbs::Error("ibv_create_srq", errno);
    }
    return srq;
}

} // namespace

std::string try_queues(const verbs::Device& device, ibv_pd* pd, const verbs::Port& port)
{
    const char* what = "completion queues";
    try {
        verbs::Path path{};
        path.port = port.number;
        const verbs::CompletionQueue cq = verbs::create_cq(device.context(), 2, nullptr);
        what = "UD queue pairs, by which gdr connects";
        ibv_qp_cap datagrams = HandshakeChannel::capabilities();
        verbs::create_ud(pd, cq.get(), path, kQkey, &datagrams);
        what = "shared receive queues";
        const verbs::SharedReceiveQueue srq = make_srq(pd);
        what = "RC queue pairs";
        ibv_qp_cap connected{};
        connected.max_send_wr = connected.max_send_sge = 1;
        verbs::create_rc(pd, cq.get(), srq.get(), path, device.remote_access(), &connected);
    } catch (const verbs::Error& error) {
        return std::string("has no ") + what + ": " + error.what();
    }
    return {};
}

} // namespace gdr::rc
