// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A thread of a soak: a worker of its own that connects to others, lets itself be connected to,
// transfers over all of its connections and parts from them.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "../support/listener.hpp"
#include "connection.hpp"

namespace ucptest {

class Actor {
  public:
    // self: where others find its port; NULL: a visitor, which connects but is not connected to.
    Actor(Board& board, Board::Actor* self, unsigned processes, unsigned threads, uint64_t seed);
    Actor(const Actor&) = delete;
    Actor& operator=(const Actor&) = delete;

    // Until the board says stop.
    void run();

  private:
    void set_handler(unsigned id, ucp_am_recv_callback_t callback);
    void accept();
    void connect();
    void add(ucp_ep_params_t& params, bool ours);
    Connection* find(ucp_ep_h ep);
    void step();
    static ucs_status_t on_note(void* self, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);
    static ucs_status_t on_data(void* self, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param);

    Board& board_;
    Board::Actor* self_;
    const unsigned processes_;
    const unsigned threads_;
    Random random_;
    const MemoryKinds kinds_;
    Worker worker_;
    std::deque<ucp_conn_request_h> requests_;
    std::list<std::unique_ptr<Connection>> connections_;
    Graveyard graveyard_;
    std::optional<Listener> listener_;
};

} // namespace ucptest
