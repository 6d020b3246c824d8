// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "rc/failed_completions.hpp"

#include "log/log.hpp"
#include "rc/completion_status.hpp"
#include "rc/endpoint.hpp"
#include "rc/events.hpp"
#include "rc/send_completions.hpp"
#include "verbs/error.hpp"

namespace gdr::rc {
namespace {

void log_intrusion(const std::string& connection)
{
    gdr_log(error,
            "%s: a connection is closed: its peer sent what no UCX with gdr sends. Another program "
            "knows the address of this process",
            connection.c_str());
}

} // namespace

void handle_intrusion(Iface& iface, const ibv_wc& wc)
{
    if (Endpoint* ep = iface.endpoints.of_queue_pair(wc.qp_num); ep != nullptr) {
        if (ep->failure == UCS_OK) {
            log_intrusion(ep->ports());
            ep->fail(UCS_ERR_CONNECTION_RESET);
        }
    } else if (WindowCredit* credit = find_window_credit(iface, wc.qp_num);
               credit != nullptr && iface.window_credits->fail(*credit)) {
        log_intrusion(iface.name());
    }
}

void handle_error(Iface& iface, const ibv_wc& wc)
{
    ucs_status_t status = to_status(wc.status);
    if (!(wc.wr_id & kSendBit)) {
        // The receive comes back when its queue pair ends. Otherwise it is the HCA's own problem
        // (length, protection), and the sender's HCA reports it to the sender.
        if (wc.status != IBV_WC_WR_FLUSH_ERR) {
            gdr_log(error,
                    "%s failed to receive a message, and the sender's connection ends: %s: %s",
                    iface.name().c_str(), ibv_wc_status_str(wc.status),
                    verbs::completion_cause(wc.status));
        }
        if (ibv_qp* emptied = iface.receive_queues->take_unfilled(wc); emptied != nullptr) {
            iface.handshake->receives_done(emptied);
        }
        return;
    }
    if (wc.wr_id & kAcceptedBit) {
        return iface.window_credits->sent(wc.wr_id, wc.status);
    }
    const Endpoints::Slot& slot = iface.endpoints.slot(wc.wr_id);
    if (!slot.posted(wc.wr_id)) {
        return; // destroyed before, its credits are back
    }
    Endpoint* ep = slot.endpoint();
    if (ep->failure == UCS_OK) {
        // The first failure; the flushed work requests that follow say nothing new.
        // If the peer is gone, the error handler decides what that means; UCP always has one.
        auto level = iface.err_handler != nullptr && status == UCS_ERR_ENDPOINT_TIMEOUT
                         ? log::Level::diag
                         : log::Level::error;
        log::message(level, __FILE__, __LINE__, "a connection from %s failed: %s: %s",
                     ep->ports().c_str(), ibv_wc_status_str(wc.status),
                     verbs::completion_cause(wc.status));
        if (wc.status == IBV_WC_RETRY_EXC_ERR) {
            iface.handshake->peer_failed(ep->peer.incarnation);
        }
        ep->fail(status);
    }
    handle_sent_slow(*ep, wc.wr_id, status);
}

} // namespace gdr::rc
