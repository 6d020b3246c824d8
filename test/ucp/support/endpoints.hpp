// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The endpoints of a rank to its peers, made from worker addresses or as client and server, with
// or without UCP's peer error handling.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "listener.hpp"
#include "ranks.hpp"
#include "worker.hpp"

namespace ucptest {

class Endpoints {
  public:
    enum class Connect { kWorkerAddress, kClientServer };

    Endpoints(Ranks& ranks, Worker& worker, Connect connect, bool peer_errors);
    Endpoints(const Endpoints&) = delete;
    Endpoints& operator=(const Endpoints&) = delete;

    ucp_ep_h to(int peer) const { return endpoints_.at(static_cast<size_t>(peer)).handle; }
    // What the error handler of the endpoint was given; UCS_OK as long as it was not called.
    ucs_status_t error(int peer) const { return endpoints_.at(static_cast<size_t>(peer)).error; }
    void require_no_error() const;

    // All ranks together: flushes and closes every endpoint.
    void close();

  private:
    struct Endpoint {
        ucp_ep_h handle = nullptr;
        ucs_status_t error = UCS_OK;
    };

    void connect_by_address();
    void connect_as_client_and_server();
    void create(int peer, ucp_ep_params_t& params);

    Ranks& ranks_;
    Worker& worker_;
    bool peer_errors_;
    std::vector<Endpoint> endpoints_; // by rank; an endpoint's address is its handler's argument
    ucp_conn_request_h pending_request_ = nullptr;
    std::optional<Listener> listener_;
};

} // namespace ucptest
