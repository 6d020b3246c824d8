// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What peers that were given the address make arrive in the CQ of an interface: any opcode,
// immediate data, length and status, on an endpoint's queue pair, an accepted one, or one that is
// gone.
#include "target.hpp"
#include "wire.hpp"

#include "rc_support.hpp"

#include "rc/connect/wire.hpp"
#include "rc/endpoint.hpp"
#include "rc/iface.hpp"

#include <algorithm>
#include <optional>

#include <arpa/inet.h>

namespace {

using namespace gdr::rc;

constexpr size_t kLongest = 64; // data that is looked at

// An interface connected with itself.
struct Loop {
    rc_test::Node node{rc_test::Variables{{"RX_QUEUE_LEN", "512"}}};
    Iface& iface = rc_iface(node.iface());
    std::optional<rc_test::Endpoint> ep;

    ibv_qp* endpoint_qp() { return endpoint(*ep).qp; }
    ibv_qp* accepted_qp()
    {
        return iface.window_credits->size() == 0 ? nullptr
                                                 : iface.window_credits->begin()->second.qp();
    }
    bool whole()
    {
        return ep && endpoint(*ep).failure == UCS_OK && endpoint(*ep).connected &&
               iface.window_credits->size() == 1 && !iface.window_credits->begin()->second.failed();
    }

    // The handshake's datagrams reach whom they are for; all else that is sent ends here.
    void turn()
    {
        for (bool any = true; any;) {
            any = false;
            fuzz::asynchronous_turns();
            node.progress();
            for (const fuzz::Sent& sent : fuzz::take_sent()) {
                if (sent.qp_type != IBV_QPT_UD) {
                    continue;
                }
                fuzz::receive_datagram(sent.remote_qpn, sent.data.data(), sent.data.size(),
                                       sent.qp_num);
                any = true;
            }
        }
    }

    void connect()
    {
        ep.reset();
        turn();
        ep.emplace(node, node);
        while (!whole()) {
            fuzz::pass(std::chrono::milliseconds(10));
            turn();
        }
        node.failures.clear();
    }
};

Loop& loop()
{
    static auto* const instance = new Loop; // its end is not what is tested
    return *instance;
}

void receive_one(Loop& it, FuzzedDataProvider& input)
{
    ibv_qp* const qps[] = {it.endpoint_qp(), it.accepted_qp(), nullptr};
    ibv_qp* const qp = qps[input.ConsumeIntegralInRange(0, 2)];
    ibv_wc completion{};
    completion.qp_num = qp != nullptr ? qp->qp_num : input.ConsumeIntegral<uint32_t>();
    completion.opcode = input.PickValueInArray(
        {IBV_WC_RECV, IBV_WC_RECV, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_TM_RECV});
    completion.wc_flags = input.ConsumeBool()
                              ? static_cast<unsigned>(IBV_WC_WITH_IMM)
                              : input.ConsumeIntegralInRange(0u, 2u * IBV_WC_WITH_INV);
    completion.status = input.ConsumeProbability<float>() < 0.9f
                            ? IBV_WC_SUCCESS
                            : static_cast<ibv_wc_status>(input.ConsumeIntegralInRange(
                                  1, static_cast<int>(IBV_WC_GENERAL_ERR)));
    const uint32_t immediate =
        input.ConsumeBool() ? input.ConsumeIntegral<uint8_t>() : input.ConsumeIntegral<uint32_t>();
    completion.imm_data = htonl(immediate);
    const std::string data = input.ConsumeRandomLengthString(kLongest);
    // An RDMA WRITE's length is not that of the receive which it takes.
    const bool send = completion.opcode == IBV_WC_RECV;
    completion.byte_len =
        send ? static_cast<uint32_t>(data.size()) : input.ConsumeIntegral<uint32_t>();

    it.node.received.clear();
    if (!fuzz::receive(it.iface.receive_queues->srq(), it.iface.completions.queue(), data.data(),
                       data.size(), completion)) {
        return;
    }
    while (it.node.progress() != 0) {
    }
    const bool handled = completion.status == IBV_WC_SUCCESS && send &&
                         (completion.wc_flags & IBV_WC_WITH_IMM) && !(immediate & kWindowGrant);
    fuzz::expect(it.node.received.size() == (handled ? 1 : 0),
                 handled ? "a message was not handed over" : "what is no message was handed over");
    if (handled) {
        fuzz::expect(it.node.received[0].id == (immediate & kAmIdMask), "another handler's");
        fuzz::expect(it.node.received[0].data == data, "other data");
    }
}

} // namespace

int LLVMFuzzerInitialize(int*, char*** argv)
{
    fuzz::start(*argv);
    loop().connect();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size)
{
    FuzzedDataProvider input(bytes, size);
    Loop& it = loop();
    if (!it.whole()) {
        it.connect();
    }
    while (input.remaining_bytes() > 0 && it.accepted_qp() != nullptr) {
        it.node.hold_buffers = input.ConsumeBool();
        receive_one(it, input);
    }
    for (void* held : std::exchange(it.node.held, {})) {
        uct_iface_release_desc(held);
    }
    it.turn();
    return 0;
}
