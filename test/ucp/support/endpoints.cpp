// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The endpoints of a rank to its peers.
#include "endpoints.hpp"

#include <utility>

#include "failure.hpp"
#include "in_flight.hpp"

namespace ucptest {
Endpoints::Endpoints(Ranks& ranks, Worker& worker, Connect connect, bool peer_errors)
    : ranks_(ranks), worker_(worker), peer_errors_(peer_errors),
      endpoints_(static_cast<size_t>(ranks.count()))
{
    if (connect == Connect::kWorkerAddress) {
        connect_by_address();
    } else {
        connect_as_client_and_server();
    }
}

void Endpoints::create(int peer, ucp_ep_params_t& params)
{
    Endpoint& endpoint = endpoints_.at(static_cast<size_t>(peer));
    if (peer_errors_) { // without a handler UCP says what it cannot hand on
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
            static_cast<Endpoint*>(argument)->error = status;
        };
        params.err_handler.arg = &endpoint;
    }
    require_ok(ucp_ep_create(worker_.handle(), &params, &endpoint.handle), "ucp_ep_create");
}

void Endpoints::connect_by_address()
{
    const auto addresses =
        ranks_.exchange([&](int) { return worker_.address(); }, worker_, "worker addresses");
    for (int peer : ranks_.peers()) {
        const Bytes& address = addresses.at(static_cast<size_t>(peer));
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        create(peer, params);
    }
}

// Clients connect one after another, so the server knows whose request it has.
void Endpoints::connect_as_client_and_server()
{
    if (ranks_.rank() == 0) {
        listener_.emplace(
            worker_,
            [](ucp_conn_request_h request, void* self) {
                static_cast<Endpoints*>(self)->pending_request_ = request;
            },
            this);
        const uint16_t port = listener_->port();
        for (int peer : ranks_.peers()) {
            ranks_.send(peer, {static_cast<uint8_t>(port & 0xff), static_cast<uint8_t>(port >> 8)});
            worker_.wait([this] { return pending_request_ != nullptr; }, "a connection request");
            ucp_ep_params_t params = {};
            params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
            params.conn_request = std::exchange(pending_request_, nullptr);
            create(peer, params);
        }
    } else {
        const Bytes port = ranks_.receive(0, worker_, "the listener's port");
        const sockaddr_in address = loopback(static_cast<uint16_t>(port.at(0) | port.at(1) << 8));
        ucp_ep_params_t params = client_of(address);
        create(0, params);
    }
    ranks_.barrier(worker_, "connections");
}

void Endpoints::require_no_error() const
{
    for (const Endpoint& endpoint : endpoints_) {
        require_ok(endpoint.error, "the error handler was called");
    }
}

void Endpoints::close()
{
    require_no_error();
    InFlight flushing(worker_);
    for (int peer : ranks_.peers()) {
        flushing.flush(to(peer));
    }
    flushing.wait("flush before the end");
    ranks_.barrier(worker_, "the end");
    // From here on the other side may see that this one has gone.
    InFlight closing(worker_);
    for (int peer : ranks_.peers()) {
        closing.close(to(peer), peer_errors_);
    }
    closing.wait("closing endpoints");
    ranks_.barrier(worker_, "endpoints closed");
}

} // namespace ucptest
