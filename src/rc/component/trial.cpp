// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Creates one queue of each kind.
#include "rc/component/trial.hpp"

#include "rc/connect/handshake_channel.hpp"
#include "verbs/completion_queue.hpp"
#include "verbs/error.hpp"

namespace gdr::rc {
namespace {

constexpr uint32_t kQkey = 1; // never sent to anybody

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
        what = "RC queue pairs";
        ibv_qp_cap connected{};
        connected.max_send_wr = connected.max_send_sge = 1;
        connected.max_recv_wr = connected.max_recv_sge = 1;
        verbs::create_rc(pd, cq.get(), nullptr, path, device.remote_access(), &connected);
    } catch (const verbs::Error& error) {
        return std::string("has no ") + what + ": " + error.what();
    }
    return {};
}

} // namespace gdr::rc
