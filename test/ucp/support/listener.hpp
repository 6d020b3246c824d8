// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Client-server connections within this machine.
#pragma once

#include <cstdint>

#include <netinet/in.h>
#include <ucp/api/ucp.h>

#include "worker.hpp"

namespace ucptest {

class Listener {
  public:
    // on_request is called, with argument, when the worker is progressed. The worker outlives this.
    Listener(Worker& worker, ucp_listener_conn_callback_t on_request, void* argument);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    uint16_t port() const; // one that the system has chosen, in network byte order

  private:
    ucp_listener_h handle_ = nullptr;
};

// Where a listener with this port is, in network byte order.
sockaddr_in loopback(uint16_t port);

// Of the endpoint of a client that connects to this address, which has to live until it is made.
ucp_ep_params_t client_of(const sockaddr_in& address);

} // namespace ucptest
