// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Active messages with a header: eager and rendezvous, data taken in the callback, kept for later,
// and received into memory of any kind.
#include <cstring>

#include "../support/failure.hpp"
#include "transfer.hpp"

namespace ucptest {
namespace {

constexpr unsigned kId = 17;

// Followed by a tail of bytes whose number and pattern depend on the message.
struct Header {
    uint64_t number; // of the case
    uint32_t from;
    uint32_t index;
};

size_t tail_length(size_t index)
{
    return index * 7 % 61;
}

Bytes make_header(const Case& c, int from, int to, size_t index)
{
    const Header header{c.number, static_cast<uint32_t>(from), static_cast<uint32_t>(index)};
    Bytes bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    const auto tail = pattern(~c.seed(from, to), index, tail_length(index));
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    return bytes;
}

class Receiver {
  public:
    Receiver(Place& place, const Case& c, Flows& flows, InFlight& operations)
        : place_(place), case_(c), flows_(flows), operations_(operations)
    {
        set_handler([](void* self, const void* header, size_t header_length, void* data,
                       size_t length, const ucp_am_recv_param_t* param) {
            return static_cast<Receiver*>(self)->arrived(header, header_length, data, length,
                                                         param->recv_attr);
        });
    }
    ~Receiver() { set_handler(nullptr); }

    size_t messages() const { return messages_; }

    // Receives what was kept. Rendezvous descriptors pass to UCP; eager data is given back, and so
    // is an empty rendezvous, which UCX 1.13 would not release by itself.
    void take_kept()
    {
        for (const Kept& kept : kept_) {
            Messages& far = flows_.with(kept.from).far;
            if (kept.rendezvous && case_.size > 0) {
                operations_.am_receive(kept.data, far.view(kept.index), case_.size);
            } else {
                if (case_.size > 0) {
                    far.store(kept.index, kept.data);
                }
                ucp_am_data_release(place_.worker.handle(), kept.data);
            }
        }
        kept_.clear();
    }

  private:
    struct Kept {
        void* data;
        int from;
        size_t index;
        bool rendezvous;
    };

    void set_handler(ucp_am_recv_callback_t callback)
    {
        place_.worker.handle_am(kId, callback, this,
                                UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA);
    }

    // Called by UCX: nothing may be thrown.
    ucs_status_t arrived(const void* bytes, size_t header_length, void* data, size_t length,
                         uint64_t attributes)
    {
        ++messages_;
        Header header = {};
        if (header_length >= sizeof(header)) {
            std::memcpy(&header, bytes, sizeof(header));
        }
        const int from = static_cast<int>(header.from);
        const size_t index = header.index;
        const bool known = header_length >= sizeof(header) && header.number == case_.number &&
                           from < place_.ranks.count() && from != place_.ranks.rank() &&
                           index < case_.window;
        if (!known) {
            place_.report.failed(
                format("a message with a foreign header of %zu bytes", header_length));
            return UCS_OK;
        }
        const auto expected = make_header(case_, from, place_.ranks.rank(), index);
        if (header_length != expected.size() ||
            std::memcmp(bytes, expected.data(), expected.size()) != 0) {
            place_.report.failed(format("header of message %zu from rank %d differs", index, from));
        }
        if (length != case_.size) {
            place_.report.failed(
                format("message %zu from rank %d has %zu bytes", index, from, length));
            return UCS_OK;
        }
        return take(data, length, attributes, from, index);
    }

    // Everything that an application may do with data, in turn.
    ucs_status_t take(void* data, size_t length, uint64_t attributes, int from, size_t index)
    {
        Messages& far = flows_.with(from).far;
        const bool rendezvous = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
        const bool descriptor = rendezvous || (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
        if (descriptor && index % 3 == 1) {
            kept_.push_back({data, from, index, rendezvous});
            return UCS_INPROGRESS;
        }
        if (rendezvous || (descriptor && index % 3 == 2)) {
            return operations_.am_receive(data, far.view(index), length) ? UCS_INPROGRESS : UCS_OK;
        }
        if (length > 0) {
            far.store(index, data);
        }
        return UCS_OK;
    }

    Place& place_;
    const Case& case_;
    Flows& flows_;
    InFlight& operations_;
    size_t messages_ = 0;
    std::vector<Kept> kept_;
};

void send_all(Place& place, const Case& c, uint32_t flags)
{
    Flows flows(place, c, Direction::kToFar);
    InFlight operations(place.worker);
    Receiver receiver(place, c, flows, operations);
    place.ranks.barrier(place.worker, "handlers are set");
    const int me = place.ranks.rank();
    std::deque<Bytes> headers;
    for (size_t index = 0; index < c.window; ++index) {
        for (int peer : place.ranks.peers()) {
            const Bytes& header = headers.emplace_back(make_header(c, me, peer, index));
            operations.am_send(place.endpoints.to(peer), kId, header.data(), header.size(),
                               flows.with(peer).near.view(index), flags);
        }
    }
    const size_t expected = c.window * place.ranks.peers().size();
    place.worker.wait([&] { return receiver.messages() >= expected; }, "active messages");
    receiver.take_kept();
    operations.wait("sends and receives");
    place.ranks.barrier(place.worker, "all is received");
    if (receiver.messages() != expected) {
        place.report.failed(format("%zu messages instead of %zu", receiver.messages(), expected));
    }
    flows.check();
}

} // namespace

void am(Place& place, const Case& c)
{
    send_all(place, c, 0);
}

void am_eager(Place& place, const Case& c)
{
    send_all(place, c, UCP_AM_SEND_FLAG_EAGER);
}

void am_rendezvous(Place& place, const Case& c)
{
    send_all(place, c, UCP_AM_SEND_FLAG_RNDV);
}

} // namespace ucptest
