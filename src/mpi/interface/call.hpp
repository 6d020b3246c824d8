// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// calls.list as the module has it: where a call's arguments are and what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gdr::mpi {

enum class Kind : uint8_t {
    collective, // all ranks of a communicator or neighbourhood take part; also Reduce_local
    message,    // point to point, to and from a file, or within the process
    epoch,      // one-sided or split: complete when synchronised, or by a request
    synchronise,
    partitioned, // point to point; parts become ready between start and completion
    ready,
    ready_range,
    ready_list,
    arrived,
    attach, // room for MPI_Bsend
    detach,
    window, // made from memory, or given some
    unstaged,
    // Calls that start, complete or free requests.
    wait,
    test,
    status, // asks, and keeps the request
    waitall,
    testall,
    waitany,
    testany,
    some,
    start,
    startall,
    free,
    get_info,
    set_info, // of a communicator, or of one that the call makes
    set_name, // of a type
};
inline constexpr size_t kKinds = static_cast<size_t>(Kind::set_name) + 1;

enum class Form : uint8_t { blocking, nonblocking, persistent };

// How many times its count a buffer holds: see calls.list.
enum class Blocks : uint8_t { one, size, local, in, out, sum, mine };

// A buffer and its description: positions among the arguments, -1 if there is none.
struct Side {
    int8_t buffer, count;
    int8_t type;          // -2: bytes
    int8_t displacements; // for bytes: the position of the first
    int8_t peer;          // the rank that it goes to or comes from
    bool counts, types;   // whether these are arrays
    bool addresses;       // displacements, or sizes, are MPI_Aint in the small form, too
    Blocks blocks;
    bool at_root; // significant at the root alone
    bool partial; // the call may leave some of it unchanged
    bool counted; // the call may leave its end unchanged; the status tells how much was received
    bool read;    // a written buffer is read as well
    bool direct;  // the library hands it to its transport unchanged if its bytes are contiguous

    bool bytes() const { return type == -2; }
    bool exists() const { return buffer >= 0; }
};

struct Call {
    const char* name; // without MPI_
    Kind kind;
    Form form;
    bool large; // MPI_Count instead of int
    uint8_t arguments;
    Side send, receive; // the same buffer if data go both ways
    Side compare;       // also read
    int8_t root, comm, request, op;
    int8_t target; // rank in a window
    int8_t window; // or file

    bool one_buffer() const { return send.exists() && send.buffer == receive.buffer; }
};

std::span<const Call> calls();

} // namespace gdr::mpi
