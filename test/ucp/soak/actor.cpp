// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Actors.
#include "actor.hpp"

#include <cstring>

#include "../support/cuda.hpp"
#include "../support/failure.hpp"

namespace ucptest {
namespace {

constexpr uint64_t kFeatures =
    UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
constexpr size_t kMostConnections = 6; // until it makes no more
constexpr auto kIdle = std::chrono::milliseconds(2);

} // namespace

Actor::Actor(Board& board, Board::Actor* self, unsigned processes, unsigned threads, uint64_t seed)
    : board_(board), self_(self), processes_(processes), threads_(threads), random_(seed),
      // UCX 1.13 (protocols v1) asserts when a connection fails while it stages managed memory.
      kinds_(cuda::available(0) && cuda::attach_thread(), !board.disturbed),
      worker_(kFeatures, random_() % 8 != 0)
{
    set_handler(kNoteId, on_note);
    set_handler(kDataId, on_data);
    if (self_ == nullptr) {
        return;
    }
    listener_.emplace(
        worker_,
        [](ucp_conn_request_h request, void* self) {
            static_cast<Actor*>(self)->requests_.push_back(request);
        },
        this);
    self_->port = listener_->port();
}

void Actor::set_handler(unsigned id, ucp_am_recv_callback_t callback)
{
    worker_.handle_am(id, callback, this, UCP_AM_FLAG_WHOLE_MSG);
}

Connection* Actor::find(ucp_ep_h ep)
{
    for (const auto& connection : connections_) {
        // The endpoint of one that is closing may be gone, and its address that of another one.
        if (connection->handle() == ep && !connection->closing()) {
            return connection.get();
        }
    }
    return nullptr;
}

ucs_status_t Actor::on_note(void* self, const void* header, size_t header_length, void* data,
                            size_t length, const ucp_am_recv_param_t* param)
{
    Connection* connection = static_cast<Actor*>(self)->find(param->reply_ep);
    Note note;
    if (connection != nullptr && header_length == sizeof(note)) {
        std::memcpy(&note, header, sizeof(note));
        connection->note(note, data, length);
    }
    return UCS_OK;
}

ucs_status_t Actor::on_data(void* self, const void* header, size_t header_length, void* data,
                            size_t length, const ucp_am_recv_param_t* param)
{
    Connection* connection = static_cast<Actor*>(self)->find(param->reply_ep);
    DataHeader which;
    if (connection == nullptr || header_length != sizeof(which)) {
        return UCS_OK;
    }
    std::memcpy(&which, header, sizeof(which));
    return connection->data(which, data, length, param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
}

void Actor::add(ucp_ep_params_t& params, bool ours)
{
    auto connection = std::make_unique<Connection>(board_, worker_, kinds_, random_, ours);
    connection->fill(params);
    const ucs_status_t status = ucp_ep_create(worker_.handle(), &params, &connection->handle());
    if (status == UCS_OK) {
        ++board_.connections;
        connections_.push_back(std::move(connection));
    } else if (ours) {
        require_ok(status, "ucp_ep_create");
    } // else the client has gone meanwhile
}

void Actor::accept()
{
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = requests_.front();
    requests_.pop_front();
    add(params, false);
}

void Actor::connect()
{
    const Board::Process& process = board_.processes[random_() % processes_];
    const Board::Actor& actor = process.actors[random_() % threads_];
    const sockaddr_in address = loopback(actor.port);
    if (&actor == self_ || address.sin_port == 0) {
        return;
    }
    ucp_ep_params_t params = client_of(address);
    add(params, true);
}

void Actor::step()
{
    const bool quiet = board_.phase != Board::Phase::kRun;
    while (!requests_.empty()) {
        accept();
    }
    if (!quiet && connections_.size() < kMostConnections && random_() % 16 == 0) {
        connect();
    }
    for (auto at = connections_.begin(); at != connections_.end();) {
        (*at)->step(quiet);
        if ((*at)->ended()) {
            (*at)->bury(graveyard_);
            at = connections_.erase(at);
        } else {
            ++at;
        }
    }
    graveyard_.tend();
    if (self_ != nullptr) {
        self_->empty = quiet && connections_.empty() && graveyard_.empty();
    }
}

void Actor::run()
{
    while (board_.phase != Board::Phase::kStop) {
        step();
        for (unsigned i = 0; i < 100 && ucp_worker_progress(worker_.handle()) != 0; ++i) {
        }
        worker_.wait_for([] { return false; }, kIdle);
    }
}

} // namespace ucptest
