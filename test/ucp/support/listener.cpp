// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Client-server connections within this machine.
#include "listener.hpp"

#include <cstring>

#include <arpa/inet.h>

#include "failure.hpp"

namespace ucptest {

Listener::Listener(Worker& worker, ucp_listener_conn_callback_t on_request, void* argument)
{
    const sockaddr_in address = loopback(0);
    ucp_listener_params_t params = {};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
    params.sockaddr.addrlen = sizeof(address);
    params.conn_handler.cb = on_request;
    params.conn_handler.arg = argument;
    require_ok(ucp_listener_create(worker.handle(), &params, &handle_), "ucp_listener_create");
}

Listener::~Listener()
{
    ucp_listener_destroy(handle_);
}

uint16_t Listener::port() const
{
    ucp_listener_attr_t attributes = {};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    require_ok(ucp_listener_query(handle_, &attributes), "ucp_listener_query");
    sockaddr_in bound;
    std::memcpy(&bound, &attributes.sockaddr, sizeof(bound));
    return bound.sin_port;
}

sockaddr_in loopback(uint16_t port)
{
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = port;
    return address;
}

ucp_ep_params_t client_of(const sockaddr_in& address)
{
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address);
    params.sockaddr.addrlen = sizeof(address);
    return params;
}

} // namespace ucptest
