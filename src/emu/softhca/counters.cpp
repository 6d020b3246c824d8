// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The sum of what this process's queue pairs, past and present, have done.
#pragma GCC visibility push(default)
#include "emu/softhca/softhca.h"
#pragma GCC visibility pop

#include "emu/softhca/fabric.hpp"
#include "emu/softhca/memory.hpp"

using namespace softhca;

namespace {

void add(struct softhca_counters& sum, const QpShared& qp)
{
    sum.sends += qp.counts[0];
    sum.writes += qp.counts[1];
    sum.reads += qp.counts[2];
    sum.atomics += qp.counts[3];
    sum.bytes += qp.bytes;
    sum.bytes_from_device += qp.bytes_from_device.load();
    sum.bytes_to_device += qp.bytes_to_device.load();
}

} // namespace

extern "C" void softhca_counters(struct softhca_counters* counters)
{
    *counters = {};
    Process* process = Process::current();
    if (process == nullptr) {
        return;
    }
    const Registrations& registered = process->registrations;
    counters->registrations = registered.host.load();
    counters->registrations_peer = registered.peer.load();
    counters->registrations_dmabuf = registered.dmabuf.load();
    counters->deregistrations = registered.released.load();
    counters->system_calls = move_system_calls();
    counters->queue_pairs = process->queue_pairs_created.load();
    counters->queue_pairs_destroyed = process->queue_pairs_destroyed.load();
    // A destroyed QP leaves its counts behind; the next one of its index goes on with them.
    for (std::uint32_t index = 0; index < process->qp_indices.used(); ++index) {
        QpShared& qp = process->arena().qp(index);
        const SharedGuard guard(qp.lock, process->token());
        add(*counters, qp);
    }
}
