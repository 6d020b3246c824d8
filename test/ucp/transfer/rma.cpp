// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Put and get. The target makes no call but progress.
#include "../support/remote_memory.hpp"
#include "transfer.hpp"

namespace ucptest {
namespace {

using Start = void (InFlight::*)(ucp_ep_h, const View&, uint64_t, ucp_rkey_h);

void access_all(Place& place, const Case& c, Direction direction, Start start)
{
    Flows flows(place, c, direction);
    std::map<int, std::unique_ptr<ExposedMemory>> exposed;
    for (int peer : place.ranks.peers()) {
        exposed[peer] =
            std::make_unique<ExposedMemory>(place.worker, flows.with(peer).far.memory());
    }
    const auto packed = place.ranks.exchange([&](int peer) { return exposed[peer]->packed(); },
                                             place.worker, "remote memory");
    std::map<int, std::unique_ptr<RemoteMemory>> remote;
    InFlight operations(place.worker);
    for (int peer : place.ranks.peers()) {
        remote[peer] = std::make_unique<RemoteMemory>(place.endpoints.to(peer),
                                                      packed.at(static_cast<size_t>(peer)));
    }
    for (size_t index = 0; index < c.window; ++index) {
        for (int peer : place.ranks.peers()) {
            // The peer's buffer is laid out as the far buffer here is.
            Messages& far = flows.with(peer).far;
            const auto offset = static_cast<size_t>(static_cast<char*>(far.address(index)) -
                                                    static_cast<char*>(far.memory().address()));
            (operations.*start)(place.endpoints.to(peer), flows.with(peer).near.view(index),
                                remote[peer]->address(offset), remote[peer]->rkey());
        }
    }
    for (int peer : place.ranks.peers()) {
        operations.flush(place.endpoints.to(peer));
    }
    operations.wait("operations and flush");
    place.ranks.barrier(place.worker, "all is flushed");
    flows.check();
}

} // namespace

void put(Place& place, const Case& c)
{
    access_all(place, c, Direction::kToFar, &InFlight::put);
}

void get(Place& place, const Case& c)
{
    access_all(place, c, Direction::kFromFar, &InFlight::get);
}

} // namespace ucptest
