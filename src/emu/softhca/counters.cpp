// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The sum of what this process's queue pairs, past and present, have done.
#include "emu/softhca/counters.hpp"

#pragma GCC visibility push(default)
#include "emu/softhca/softhca.h"
#pragma GCC visibility pop

#include "emu/softhca/config.hpp"
#include "emu/softhca/fabric.hpp"
#include "emu/softhca/memory.hpp"

#include <cstdio>
#include <cstdlib>

using namespace softhca;

namespace {

void add(struct softhca_counters& sum, const QpShared& qp)
{
    sum.sends += qp.counts[0];
    sum.writes += qp.counts[1];
    sum.reads += qp.counts[2];
    sum.atomics += qp.counts[3];
    sum.signaled += qp.signaled;
    sum.doorbells += qp.doorbells;
    sum.bytes += qp.bytes;
    sum.bytes_from_device += qp.bytes_from_device.load();
    sum.bytes_to_device += qp.bytes_to_device.load();
}

// By the HCA that a queue pair was last made for.
void print_bytes_of_devices(Process& process)
{
    std::uint64_t bytes[kMaxDevices] = {};
    for (std::uint32_t index = 0; index < process.qp_indices.used(); ++index) {
        QpShared& qp = process.arena().qp(index);
        const SharedGuard guard(qp.lock, process.token());
        bytes[qp.device % kMaxDevices] += qp.bytes;
    }
    for (unsigned i = 0; i < config().devices; ++i) {
        std::fprintf(stderr, " bytes_%s=%llu", config().names[i].c_str(),
                     static_cast<unsigned long long>(bytes[i]));
    }
}

} // namespace

extern "C" void softhca_counters(struct softhca_counters* counters)
{
    *counters = {};
    Process* process = Process::current();
    if (process == nullptr) {
        return;
    }
    do_posted();
    const Registrations& registered = process->registrations;
    counters->registrations = registered.host.load();
    counters->registrations_peer = registered.peer.load();
    counters->registrations_dmabuf = registered.dmabuf.load();
    counters->registrations_relaxed = registered.relaxed.load();
    counters->deregistrations = registered.released.load();
    counters->completions = process->completions.load();
    counters->system_calls = move_system_calls();
    counters->queue_pairs = process->queue_pairs_created.load();
    counters->queue_pairs_destroyed = process->queue_pairs_destroyed.load();
    counters->thread_domain_queues = process->thread_domain_queues.load();
    counters->single_threaded_cqs = process->single_threaded_cqs.load();
    counters->batches = process->batches.load();
    counters->extended_completions = process->extended_completions.load();
    // A destroyed QP leaves its counts behind; the next one of its index goes on with them.
    for (std::uint32_t index = 0; index < process->qp_indices.used(); ++index) {
        QpShared& qp = process->arena().qp(index);
        const SharedGuard guard(qp.lock, process->token());
        add(*counters, qp);
    }
}

void softhca::print_counters()
{
    if (Process::current() == nullptr) { // a forked child that used no HCA
        return;
    }
    struct softhca_counters counters;
    softhca_counters(&counters);
    const struct {
        const char* name;
        std::uint64_t value;
    } fields[] = {
        {"sends", counters.sends},
        {"writes", counters.writes},
        {"reads", counters.reads},
        {"atomics", counters.atomics},
        {"signaled", counters.signaled},
        {"doorbells", counters.doorbells},
        {"completions", counters.completions},
        {"bytes", counters.bytes},
        {"bytes_from_device", counters.bytes_from_device},
        {"bytes_to_device", counters.bytes_to_device},
        {"registrations",
         counters.registrations + counters.registrations_peer + counters.registrations_dmabuf},
        {"registrations_relaxed", counters.registrations_relaxed},
        {"deregistrations", counters.deregistrations},
        {"system_calls", counters.system_calls},
        {"queue_pairs", counters.queue_pairs},
        {"thread_domain_queues", counters.thread_domain_queues},
        {"single_threaded_cqs", counters.single_threaded_cqs},
        {"batches", counters.batches},
        {"extended_completions", counters.extended_completions},
    };
    std::fputs("softhca", stderr);
    for (const auto& field : fields) {
        std::fprintf(stderr, " %s=%llu", field.name, static_cast<unsigned long long>(field.value));
    }
    if (config().devices > 1 || std::getenv("GDR_MACHINE") != nullptr) {
        print_bytes_of_devices(*Process::current());
    }
    std::fputc('\n', stderr);
}
