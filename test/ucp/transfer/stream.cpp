// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Streams: messages arrive in the order in which they were sent on the endpoint.
#include "transfer.hpp"

namespace ucptest {

void stream(Place& place, const Case& c)
{
    // UCX 1.13's receiver aborts on an empty stream message (assertion in stream_recv.c).
    if (c.size == 0) {
        return;
    }
    Flows flows(place, c, Direction::kToFar);
    InFlight operations(place.worker);
    // Even cases have receives posted before data arrives, odd ones after.
    const bool receive_first = c.number % 2 == 0;
    const auto receive_all = [&] {
        for (size_t index = 0; index < c.window; ++index) {
            for (int peer : place.ranks.peers()) {
                operations.stream_receive(place.endpoints.to(peer),
                                          flows.with(peer).far.view(index), c.size);
            }
        }
    };
    if (receive_first) {
        receive_all();
    }
    for (size_t index = 0; index < c.window; ++index) {
        for (int peer : place.ranks.peers()) {
            operations.stream_send(place.endpoints.to(peer), flows.with(peer).near.view(index));
        }
    }
    if (!receive_first) {
        place.ranks.barrier(place.worker, "sends are posted");
        receive_all();
    }
    operations.wait("sends and receives");
    flows.check();
}

} // namespace ucptest
