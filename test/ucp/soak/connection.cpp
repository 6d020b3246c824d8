// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Transfers begin and end, and so do connections.
#include "connection.hpp"

#include <algorithm>
#include <cstring>

#include "../support/failure.hpp"
#include "../support/report.hpp"

namespace ucptest {
namespace {

constexpr size_t kMostInitiated = 3;
constexpr auto kRest = std::chrono::seconds(6); // longer than an HCA repeats what is not answered
constexpr unsigned kPartOneIn = 500;            // steps that start something
constexpr uint32_t kNoteFlags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;

} // namespace

void Graveyard::bury(std::unique_ptr<Transfer> transfer)
{
    graves_.emplace_back(Clock::now() + kRest, std::move(transfer));
}

void Graveyard::tend()
{
    while (!graves_.empty() && graves_.front().first < Clock::now()) {
        graves_.pop_front();
    }
}

Connection::Connection(Board& board, Worker& worker, const MemoryKinds& kinds, Random& random,
                       bool ours)
    : board_(board), worker_(worker), kinds_(kinds), random_(random), ours_(ours), closing_(worker)
{
}

void Connection::fill(ucp_ep_params_t& params)
{
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
        static_cast<Connection*>(self)->error_ = status;
    };
    params.err_handler.arg = this;
}

void Connection::note(const Note& note, const void* data, size_t length)
{
    const auto* bytes = static_cast<const uint8_t*>(data);
    arrived_.push_back({note, Bytes(bytes, bytes + length)});
}

ucs_status_t Connection::data(const DataHeader& header, void* data, size_t length, bool rendezvous)
{
    // The offer may still wait among the notes, but the initiator has heard that all is ready.
    Transfer* transfer = find(header.id, false);
    return transfer != nullptr ? transfer->arrived(header.index, data, length, rendezvous) : UCS_OK;
}

void Connection::say(const Note& note, Bytes data)
{
    Message& message = said_.emplace_back(worker_, note, std::move(data));
    const View view{message.data.data(), message.data.size(), ucp_dt_make_contig(1),
                    UCS_MEMORY_TYPE_HOST};
    message.operations.am_send(ep_, kNoteId, &message.note, sizeof(message.note), view, kNoteFlags);
}

Transfer* Connection::find(uint64_t id, bool initiator)
{
    for (const auto& transfer : transfers_) {
        if (transfer->offer().id == id && transfer->initiator() == initiator) {
            return transfer.get();
        }
    }
    return nullptr;
}

void Connection::handle_notes()
{
    while (!arrived_.empty() && error_ == UCS_OK) {
        const Arrived next = std::move(arrived_.front());
        arrived_.pop_front();
        handle(next);
    }
}

void Connection::handle(const Arrived& arrived)
{
    Note answer = arrived.note;
    switch (arrived.note.type) {
    case Note::Type::kOffer:
        transfers_.push_back(
            std::make_unique<Transfer>(worker_, ep_, arrived.note, false, kinds_, random_));
        answer.type = Note::Type::kReady;
        say(answer, transfers_.back()->prepare());
        break;
    case Note::Type::kReady:
        if (Transfer* transfer = find(arrived.note.id, true)) {
            transfer->start(arrived.data);
        }
        break;
    case Note::Type::kDone:
        if (Transfer* transfer = find(arrived.note.id, false)) {
            transfer->initiator_is_done();
        }
        break;
    case Note::Type::kLeave:
        peer_leaves_ = true;
        break;
    case Note::Type::kLeft:
        stage_ = Stage::kLeft;
        break;
    }
}

void Connection::offer()
{
    const auto initiated = static_cast<size_t>(
        std::count_if(transfers_.begin(), transfers_.end(),
                      [](const auto& transfer) { return transfer->initiator(); }));
    if (initiated >= kMostInitiated) {
        return;
    }
    const Note offer = random_offer(random_);
    // Streams of one direction follow one another.
    if (offer.kind == Kind::kStream &&
        std::any_of(transfers_.begin(), transfers_.end(), [](const auto& transfer) {
            return transfer->initiator() && transfer->offer().kind == Kind::kStream;
        })) {
        return;
    }
    transfers_.push_back(std::make_unique<Transfer>(worker_, ep_, offer, true, kinds_, random_));
    say(offer);
}

void Connection::check_transfers()
{
    for (auto at = transfers_.begin(); at != transfers_.end();) {
        Transfer& transfer = **at;
        // The error handler is called soon.
        if (transfer.status() != UCS_OK || !transfer.complete()) {
            if (transfer.is_late() && error_ == UCS_OK) {
                throw Failure("does not end: " + transfer.text() + "; " + text());
            }
            ++at;
            continue;
        }
        if (const auto wrong = transfer.check()) {
            throw Failure(*wrong + ": " + transfer.text());
        }
        if (transfer.initiator()) {
            ++board_.transfers[static_cast<unsigned>(transfer.offer().kind)];
            board_.bytes += transfer.bytes();
        }
        if (transfer.initiator() && error_ == UCS_OK) {
            Note done = transfer.offer();
            done.type = Note::Type::kDone;
            say(done);
        }
        at = transfers_.erase(at);
    }
}

std::string Connection::text() const
{
    static constexpr const char* stages[] = {"open", "leaving", "left", "closing"};
    return format("%s, %s, %zu transfers, %zu notes not sent yet", ours_ ? "client" : "server",
                  stages[static_cast<unsigned>(stage_)], transfers_.size(), said_.size());
}

void Connection::part(bool quiet)
{
    if (peer_leaves_ && transfers_.empty()) {
        peer_leaves_ = false;
        say({Note::Type::kLeft, Kind::kTag, 0, 0, 0});
        if (stage_ == Stage::kOpen) {
            deadline_ = Clock::now() + std::chrono::seconds(2 * deadline_s());
        }
        stage_ = std::max(stage_, Stage::kLeaving); // and is closed by the other side
    }
    if (ours_ && stage_ == Stage::kOpen && (quiet || random_() % kPartOneIn == 0)) {
        stage_ = Stage::kLeaving;
        deadline_ = Clock::now() + std::chrono::seconds(2 * deadline_s());
        say({Note::Type::kLeave, Kind::kTag, 0, 0, 0});
    }
    if (stage_ == Stage::kLeft && transfers_.empty() && said_.empty()) {
        ++board_.farewells;
        close(false);
    }
}

void Connection::close(bool force)
{
    stage_ = Stage::kClosing;
    closing_.close(ep_, force);
}

void Connection::step(bool quiet)
{
    if (stage_ == Stage::kClosing) {
        return;
    }
    if (error_ != UCS_OK) {
        // The other side has closed, or it is gone.
        for (const Arrived& last : arrived_) {
            if (last.note.type == Note::Type::kDone) {
                handle(last);
            }
        }
        check_transfers();
        if (stage_ == Stage::kOpen || !transfers_.empty()) {
            if (!board_.disturbed) {
                throw Failure(format("a connection was lost: %s, %zu transfers%s%s",
                                     ucs_status_string(error_), transfers_.size(),
                                     transfers_.empty() ? "" : ", of which ",
                                     transfers_.empty() ? "" : transfers_.front()->text().c_str()));
            }
            ++board_.losses;
        }
        for (const auto& transfer : transfers_) {
            transfer->cancel();
        }
        close(true);
        return;
    }
    std::erase_if(said_,
                  [](const Message& message) { return message.operations.outstanding() == 0; });
    handle_notes();
    check_transfers();
    if (error_ != UCS_OK) {
        return;
    }
    part(quiet);
    if (stage_ == Stage::kOpen && !quiet && !peer_leaves_) {
        offer();
    }
    if (stage_ != Stage::kOpen && stage_ != Stage::kClosing && Clock::now() > deadline_) {
        throw Failure(format("a connection is not closed, %zu transfers", transfers_.size()));
    }
}

bool Connection::ended() const
{
    return stage_ == Stage::kClosing && closing_.outstanding() == 0 &&
           std::all_of(transfers_.begin(), transfers_.end(),
                       [](const auto& transfer) { return transfer->outstanding() == 0; }) &&
           std::all_of(said_.begin(), said_.end(), [](const Message& message) {
               return message.operations.outstanding() == 0;
           });
}

void Connection::bury(Graveyard& graveyard)
{
    for (auto& transfer : transfers_) {
        graveyard.bury(std::move(transfer));
    }
    transfers_.clear();
}

} // namespace ucptest
