// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The operations that exist, and the buffers that they share.
#include "transfer.hpp"

#include "../support/failure.hpp"

namespace ucptest {
namespace {

constexpr uint64_t kEmpty = 0xe; // marks the pattern of a buffer that nothing has arrived in yet

} // namespace

const std::vector<Operation>& operations()
{
    static const std::vector<Operation> all = {
        {"tag", UCP_FEATURE_TAG, true, tag_expected},
        {"tag_unexpected", UCP_FEATURE_TAG, true, tag_unexpected},
        {"tag_sync", UCP_FEATURE_TAG, true, tag_synchronous},
        {"am", UCP_FEATURE_AM, true, am},
        {"am_eager", UCP_FEATURE_AM, true, am_eager},
        {"am_rndv", UCP_FEATURE_AM, true, am_rendezvous},
        {"stream", UCP_FEATURE_STREAM, true, stream},
        {"put", UCP_FEATURE_RMA, true, put},
        {"get", UCP_FEATURE_RMA, true, get},
        {"atomic_add", UCP_FEATURE_AMO64, false, atomic_add},
        {"atomic_fadd", UCP_FEATURE_AMO64, false, atomic_fetch_add},
        {"atomic_swap", UCP_FEATURE_AMO64, false, atomic_swap},
        {"atomic_cswap", UCP_FEATURE_AMO64, false, atomic_compare_swap},
        {"atomic_bitwise", UCP_FEATURE_AMO64, false, atomic_bitwise},
    };
    return all;
}

std::string Case::name() const
{
    const auto layout = [](bool scattered) { return scattered ? "iov" : "contig"; };
    return format("%s %s:%s %zu bytes %s:%s window %zu (case %llu)", operation->name,
                  ucptest::name(near), ucptest::name(far), size, layout(near_scattered),
                  layout(far_scattered), window, static_cast<unsigned long long>(number));
}

uint64_t Case::seed(int from, int to) const
{
    return seed_of({number, size, static_cast<uint64_t>(from), static_cast<uint64_t>(to)});
}

Flows::Flows(Place& place, const Case& c, Direction direction)
    : place_(place), case_(c), direction_(direction)
{
    const int me = place.ranks.rank();
    const bool to_far = direction == Direction::kToFar;
    for (int peer : place.ranks.peers()) {
        auto flow = std::make_unique<Flow>(c);
        const uint64_t empty = seed_of({kEmpty, c.number, static_cast<uint64_t>(me)});
        flow->near.fill(to_far ? c.seed(me, peer) : empty);
        flow->far.fill(to_far ? empty : c.seed(me, peer));
        flows_.emplace(peer, std::move(flow));
    }
}

void Flows::check()
{
    const int me = place_.ranks.rank();
    const bool to_far = direction_ == Direction::kToFar;
    for (const auto& [peer, flow] : flows_) {
        const uint64_t sent = case_.seed(me, peer);
        const uint64_t received = case_.seed(peer, me);
        if (const auto wrong = flow->near.difference(to_far ? sent : received)) {
            place_.report.failed(format("rank %d, %s with rank %d: %s", me,
                                        to_far ? "own source" : "own target", peer,
                                        wrong->c_str()));
        }
        if (const auto wrong = flow->far.difference(to_far ? received : sent)) {
            place_.report.failed(format("rank %d, %s of rank %d: %s", me,
                                        to_far ? "target" : "source", peer, wrong->c_str()));
        }
    }
}

} // namespace ucptest
