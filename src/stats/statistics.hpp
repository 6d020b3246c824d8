// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What this process moved and how. Interfaces count in plain members of their own and add the
// totals here when they are closed; nothing on a data path of theirs touches these. With
// UCX_GDR_STATS=<path> one line of totals is appended to the path when the process exits ("-":
// standard error).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gdr::stats {

// What one interface or memory domain counted since it last added.
struct Counts {
    uint64_t gpudirect_bytes = 0;  // payload the HCA read from or wrote to device memory
    uint64_t staged_bytes = 0;     // payload copied between device and host memory
    uint64_t host_bytes = 0;       // payload from and to host memory
    uint64_t gpudirect_ops = 0;    // operations behind gpudirect_bytes
    uint64_t staged_ops = 0;       // operations behind staged_bytes
    uint64_t ipc_bytes = 0;        // payload copied between GPUs of two processes by CUDA IPC
    uint64_t ipc_ops = 0;          // operations behind ipc_bytes
    uint64_t registrations = 0;    // memory registrations made with an HCA (cache hits are none)
    uint64_t mpi_direct_bytes = 0; // payload on a GPU that MPI calls were given as it is
    uint64_t mpi_staged_bytes = 0; // payload copied for MPI calls, each way counted
    uint64_t mpi_gpu_bytes = 0;    // payload that kernels packed or reduced in place of MPI's CPU
};

// Any thread. One instance per process.
class Statistics {
  public:
    void add(const Counts& counts);
    Counts totals() const;
    void begin_anew(); // in a forked child: the parent counts what it did

    // Whether this process is one to speak of: not a forked child that counted nothing of its own.
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
