// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Partitioned communication with a buffer on a GPU. A partition is copied when the application
// marks it ready, and put back when MPI reports that it has arrived. Partitions that nobody asked
// for are put back when the request is complete.
#pragma once

#include "mpi/interface/invocation.hpp"
#include "mpi/staging/shadow_buffer.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace gdr::mpi {

class Partitions {
  public:
    // For MPI_Psend_init or MPI_Precv_init. Throws cuda::Error, std::bad_alloc.
    Partitions(const cuda::Driver& driver, const cuda::Pointer& memory, const Arguments& arguments,
               Footprint whole, std::vector<Footprint> parts);
    ~Partitions();
    Partitions(const Partitions&) = delete;
    Partitions& operator=(const Partitions&) = delete;

    Word address() const { return shadow_.address(); }
    bool sends() const { return sends_; }

    // A round of the persistent request, from its start until it is complete. Throw cuda::Error.
    void begin(RowCopies& copies); // the round begins once the copies have ended
    void end();

    // For one partition; any thread. Invalid ones are ignored: MPI reports them. Throw cuda::Error.
    void ready(int partition);
    void arrived(int partition);

  private:
    void put_back(size_t partition); // under the mutex

    ShadowBuffer shadow_;
    std::vector<Footprint> parts_;
    bool sends_;
    std::mutex mutex_;
    std::vector<bool> awaited_; // in this round, and not yet put back
};

// The partitions as a part of an operation.
class PartitionedShadow {
  public:
    explicit PartitionedShadow(std::shared_ptr<Partitions> partitions)
        : partitions_(std::move(partitions))
    {
    }
    void fetch(RowCopies& copies) const { partitions_->begin(copies); }
    void put_back() const { partitions_->end(); }

  private:
    std::shared_ptr<Partitions> partitions_;
};

// The number of partitioned requests. The counter stays forever.
const std::atomic<size_t>& number_of_partitions();

Handler init_partitions; // MPI_Psend_init and MPI_Precv_init
Handler ready;           // MPI_Pready
Handler ready_range;
Handler ready_list;
Handler arrived;

} // namespace gdr::mpi
