// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What this process moved and how. Interfaces count in plain members of their own and add them to
// these totals when they close, so no data path touches the totals. With UCX_GDR_STATS=<path> the
// process appends one line of totals to the path when it exits ("-": standard error).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gdr::stats {

// What one interface or memory domain counted since it last called add().
struct Counts {
    uint64_t gpudirect_bytes = 0;  // payload the HCA read from or wrote to device memory
    uint64_t staged_bytes = 0;     // payload copied between device and host memory
    uint64_t host_bytes = 0;       // payload from and to host memory
    uint64_t gpudirect_ops = 0;    // operations behind gpudirect_bytes
    uint64_t staged_ops = 0;       // operations behind staged_bytes
    uint64_t ipc_bytes = 0;        // payload copied between GPUs of two processes by CUDA IPC
    uint64_t ipc_ops = 0;          // operations behind ipc_bytes
    uint64_t registrations = 0;    // memory registrations with an HCA, without cache hits
    uint64_t mpi_direct_bytes = 0; // payload on a GPU passed to MPI calls as it is
    uint64_t mpi_staged_bytes = 0; // payload copied for MPI calls, counted in each direction
    uint64_t mpi_gpu_bytes = 0; // payload that kernels packed or reduced instead of MPI's CPU code
};

// Any thread. One instance per process.
class Statistics {
  public:
    void add(const Counts& counts);
    Counts totals() const;
    void begin_anew(); // in a forked child: the parent reports its own counts

    // Whether the line is worth writing: a forked child that counted nothing writes none.
    bool worth_a_line() const;

    // "gdr pid=<pid> gpudirect_bytes=<n> ...", without a newline.
    std::string line() const;

  private:
    std::atomic<uint64_t> gpudirect_bytes_{0};
    std::atomic<uint64_t> staged_bytes_{0};
    std::atomic<uint64_t> host_bytes_{0};
    std::atomic<uint64_t> gpudirect_ops_{0};
    std::atomic<uint64_t> staged_ops_{0};
    std::atomic<uint64_t> ipc_bytes_{0};
    std::atomic<uint64_t> ipc_ops_{0};
    std::atomic<uint64_t> registrations_{0};
    std::atomic<uint64_t> mpi_direct_bytes_{0};
    std::atomic<uint64_t> mpi_staged_bytes_{0};
    std::atomic<uint64_t> mpi_gpu_bytes_{0};
    bool forked_ = false;
};

// Outlives every interface, static destructors included.
Statistics& statistics();

} // namespace gdr::stats
