// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Process-wide totals.
#include "stats/statistics.hpp"

#include <cstddef>
#include <new>

#include <unistd.h>

namespace gdr::stats {

void Statistics::add(const Counts& counts)
{
    constexpr auto relaxed = std::memory_order_relaxed;
    gpudirect_bytes_.fetch_add(counts.gpudirect_bytes, relaxed);
    staged_bytes_.fetch_add(counts.staged_bytes, relaxed);
    host_bytes_.fetch_add(counts.host_bytes, relaxed);
    gpudirect_ops_.fetch_add(counts.gpudirect_ops, relaxed);
    staged_ops_.fetch_add(counts.staged_ops, relaxed);
    ipc_bytes_.fetch_add(counts.ipc_bytes, relaxed);
    ipc_ops_.fetch_add(counts.ipc_ops, relaxed);
    registrations_.fetch_add(counts.registrations, relaxed);
    mpi_direct_bytes_.fetch_add(counts.mpi_direct_bytes, relaxed);
    mpi_staged_bytes_.fetch_add(counts.mpi_staged_bytes, relaxed);
    mpi_gpu_bytes_.fetch_add(counts.mpi_gpu_bytes, relaxed);
}

Counts Statistics::totals() const
{
    return {.gpudirect_bytes = gpudirect_bytes_,
            .staged_bytes = staged_bytes_,
            .host_bytes = host_bytes_,
            .gpudirect_ops = gpudirect_ops_,
            .staged_ops = staged_ops_,
            .ipc_bytes = ipc_bytes_,
            .ipc_ops = ipc_ops_,
            .registrations = registrations_,
            .mpi_direct_bytes = mpi_direct_bytes_,
            .mpi_staged_bytes = mpi_staged_bytes_,
            .mpi_gpu_bytes = mpi_gpu_bytes_};
}

void Statistics::begin_anew()
{
    forked_ = true;
    gpudirect_bytes_ = 0;
    staged_bytes_ = 0;
    host_bytes_ = 0;
    gpudirect_ops_ = 0;
    staged_ops_ = 0;
    ipc_bytes_ = 0;
    ipc_ops_ = 0;
    registrations_ = 0;
    mpi_direct_bytes_ = 0;
    mpi_staged_bytes_ = 0;
    mpi_gpu_bytes_ = 0;
}

bool Statistics::worth_a_line() const
{
    const Counts sum = totals();
    return !forked_ ||
           (sum.gpudirect_bytes | sum.staged_bytes | sum.host_bytes | sum.gpudirect_ops |
            sum.staged_ops | sum.ipc_bytes | sum.ipc_ops | sum.registrations |
            sum.mpi_direct_bytes | sum.mpi_staged_bytes | sum.mpi_gpu_bytes) != 0;
}

std::string Statistics::line() const
{
    const Counts sum = totals();
    return "gdr pid=" + std::to_string(getpid()) +
           " gpudirect_bytes=" + std::to_string(sum.gpudirect_bytes) +
           " staged_bytes=" + std::to_string(sum.staged_bytes) +
           " host_bytes=" + std::to_string(sum.host_bytes) +
           " gpudirect_ops=" + std::to_string(sum.gpudirect_ops) +
           " staged_ops=" + std::to_string(sum.staged_ops) +
           " ipc_bytes=" + std::to_string(sum.ipc_bytes) +
           " ipc_ops=" + std::to_string(sum.ipc_ops) +
           " registrations=" + std::to_string(sum.registrations) +
           " mpi_direct_bytes=" + std::to_string(sum.mpi_direct_bytes) +
           " mpi_staged_bytes=" + std::to_string(sum.mpi_staged_bytes) +
           " mpi_gpu_bytes=" + std::to_string(sum.mpi_gpu_bytes);
}

Statistics& statistics()
{
    // Never destroyed: static destructors that run after ours may close interfaces.
    alignas(Statistics) static std::byte storage[sizeof(Statistics)];
    static auto* const instance = new (storage) Statistics;
    return *instance;
}

} // namespace gdr::stats
