// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tag matching: receives that are posted before the message comes, after it, and synchronous
// sends.
#include "../support/failure.hpp"
#include "transfer.hpp"

namespace ucptest {
namespace {

ucp_tag_t tag_of(const Case& c, int from, size_t index)
{
    return c.number << 32 | static_cast<uint64_t>(from) << 16 | index;
}

void send_all(Place& place, const Case& c, Flows& flows, InFlight& operations, bool synchronous)
{
    for (size_t index = 0; index < c.window; ++index) {
        for (int peer : place.ranks.peers()) {
            operations.tag_send(place.endpoints.to(peer), flows.with(peer).near.view(index),
                                tag_of(c, place.ranks.rank(), index), synchronous);
        }
    }
}

void receive_all(Place& place, const Case& c, Flows& flows, InFlight& operations)
{
    for (size_t index = 0; index < c.window; ++index) {
        for (int peer : place.ranks.peers()) {
            operations.tag_receive(flows.with(peer).far.view(index), tag_of(c, peer, index),
                                   c.size);
        }
    }
}

} // namespace

void tag_expected(Place& place, const Case& c)
{
    Flows flows(place, c, Direction::kToFar);
    InFlight operations(place.worker);
    receive_all(place, c, flows, operations);
    place.ranks.barrier(place.worker, "receives are posted");
    send_all(place, c, flows, operations, false);
    operations.wait("sends and receives");
    flows.check();
}

void tag_unexpected(Place& place, const Case& c)
{
    Flows flows(place, c, Direction::kToFar);
    InFlight operations(place.worker);
    send_all(place, c, flows, operations, false);
    place.ranks.barrier(place.worker, "sends are posted");
    receive_all(place, c, flows, operations);
    operations.wait("sends and receives");
    flows.check();
}

// A synchronous send must not complete before its receive is posted.
void tag_synchronous(Place& place, const Case& c)
{
    Flows flows(place, c, Direction::kToFar);
    InFlight operations(place.worker);
    send_all(place, c, flows, operations, true);
    place.ranks.barrier(place.worker, "sends are posted");
    const size_t sends = c.window * place.ranks.peers().size();
    if (operations.outstanding() != sends) {
        place.report.failed(format("%zu of %zu synchronous sends completed before any receive",
                                   sends - operations.outstanding(), sends));
    }
    place.ranks.barrier(place.worker, "no send is complete");
    receive_all(place, c, flows, operations);
    operations.wait("sends and receives");
    flows.check();
}

} // namespace ucptest
