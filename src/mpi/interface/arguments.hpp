// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The arguments of a call as MPI means them, and the footprints of its buffers.
#pragma once

#include "mpi/interface/call.hpp"
#include "mpi/interface/footprint.hpp"
#include "mpi/interface/library.hpp"

namespace gdr::mpi {

class Arguments {
  public:
    Arguments(const Library& library, const Call& call, Word* words)
        : library_(library), call_(call), words_(words)
    {
    }

    const Library& library() const { return library_; }
    const Call& call() const { return call_; }
    Word* words() const { return words_; }

    void* pointer(int at) const { return reinterpret_cast<void*>(words_[at]); }
    int integer(int at) const { return static_cast<int>(words_[at]); }
    Word handle(int at) const { return library_.abi->handle(words_[at]); }

    // MPI_COMM_NULL: queries on it would raise errors of their own.
    bool no_comm() const { return call_.comm >= 0 && handle(call_.comm) == library_.comm_null; }

    // MPI_IN_PLACE.
    bool in_place(const Side& side) const
    {
        return side.exists() && words_[side.buffer] == library_.abi->in_place;
    }

    // Whether the call sends from and receives into the same buffer. Unknown for MPI_BOTTOM: false.
    bool aliased() const
    {
        return call_.send.exists() && call_.receive.exists() && !call_.one_buffer() &&
               words_[call_.send.buffer] == words_[call_.receive.buffer] &&
               words_[call_.send.buffer] != 0;
    }

    // For arrays that are NULL, which MPI rejects: 0, MPI_DATATYPE_NULL, and 0.
    int64_t count(const Side& side, int block) const
    {
        if (side.count < 0) {
            return 1;
        }
        return element(side.count, side.counts, call_.large || (side.bytes() && side.addresses),
                       block);
    }
    Word type(const Side& side, int block) const
    {
        if (!side.types) {
            return handle(side.type);
        }
        return pointer(side.type) == nullptr ? library_.datatype_null
                                             : library_.abi->handle_at(pointer(side.type), block);
    }
    // In extents of the type; in bytes if each block has its own type.
    int64_t displacement(const Side& side, int block) const
    {
        return element(side.displacements, true, call_.large || side.addresses, block);
    }

  private:
    int64_t element(int at, bool of_array, bool large, int index) const
    {
        if (of_array && pointer(at) == nullptr) {
            return 0;
        }
        if (of_array && large) {
            return static_cast<const int64_t*>(pointer(at))[index];
        }
        if (of_array) {
            return static_cast<const int*>(pointer(at))[index];
        }
        return large ? static_cast<int64_t>(words_[at]) : integer(at);
    }

    const Library& library_;
    const Call& call_;
    Word* words_;
};

// The processes of a collective call, seen from this rank; for all other calls, this rank alone.
class Group {
  public:
    explicit Group(const Arguments& arguments);

    // Whether the side's buffer is significant at this rank.
    bool significant(const Side& side) const;

    // For a buffer that the root sends and others receive.
    bool sends_from_root() const;

    Footprint footprint(const Side& side) const;

    // How many blocks a side has.
    int blocks(Blocks what) const;

  private:
    // Properties of the communicator, queried when needed.
    bool inter() const;
    int rank() const;
    int size() const;

    int neighbours(bool that_send) const;
    int64_t packed_size(const Side& side) const;

    const Arguments& arguments_;
    const Library& library_;
    Word comm_ = 0; // 0: this rank alone
};

} // namespace gdr::mpi
