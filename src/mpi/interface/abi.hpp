// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What differs between the binary interfaces of MPI libraries. It is declared here by hand, since
// no mpi.h is used; a test compares it with the mpi.h of each installed MPI. The interfaces are
// those of Open MPI 4 to 6, of MPICH 4 and 5 and its family (libmpi.so.12: Intel MPI, MVAPICH, Cray
// MPICH), and MPI 5.0's standard ABI (libmpi_abi.so).
#pragma once

#include "mpi/contract/constants.h"
#include "mpi/contract/service.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gdr::mpi {

using Word = gdr_mpi_word;

// How a derived type was made, as MPI_Type_get_envelope reports it.
struct Combiners {
    int named, dup, contiguous, vector, hvector, indexed, hindexed, indexed_block, hindexed_block,
        structure, subarray, darray, resized,
        f90; // the first of F90_REAL, F90_COMPLEX, F90_INTEGER, the last combiners
};

// How MPI_Type_create_darray divides a dimension.
struct Distributions {
    int none, cyclic, default_argument;
};

// How a window was made, and the key of the attribute that tells it.
struct Flavors {
    int keyval, create, allocate, dynamic;
};

// Size of MPI_Status, and offset of MPI_ERROR, in bytes.
struct StatusLayout {
    size_t size, error;
};

struct Abi {
    const char* name;
    bool handles_are_ints; // otherwise pointers
    Word in_place;
    Word status_ignore; // and MPI_STATUSES_IGNORE
    StatusLayout status;
    Word request_null;  // 0: the address of the library's object ompi_request_null
    Word datatype_null; // 0: that of ompi_mpi_datatype_null
    Word info_null;     // 0: that of ompi_mpi_info_null
    Word byte;          // 0: that of ompi_mpi_byte
    Word integer;       // MPI_INT; 0: that of ompi_mpi_int
    Word comm_world;    // 0: that of ompi_mpi_comm_world
    Word comm_self;     // 0: that of ompi_mpi_comm_self
    Word comm_null;     // 0: that of ompi_mpi_comm_null
    Word errors_return; // 0: that of ompi_mpi_errors_return
    Word win_null;      // 0: that of ompi_mpi_win_null
    // In the order of kernels::Operation. 0: the addresses of ompi_mpi_op_sum, ...
    std::array<Word, 12> operations;
    int any_source, proc_null, root, undefined;
    int error_other; // MPI_ERR_OTHER
    int cart, graph, dist_graph;
    int order_c;
    Combiners combiners;
    Distributions distributions;
    Flavors flavors;

    size_t handle_size() const { return handles_are_ints ? sizeof(int) : sizeof(void*); }

    // A handle among the arguments, and in an array that the application passes.
    Word handle(Word argument) const
    {
        return handles_are_ints ? static_cast<uint32_t>(argument) : argument;
    }
    Word handle_at(const void* array, size_t index) const
    {
        Word value = 0;
        std::memcpy(&value, static_cast<const char*>(array) + index * handle_size(), handle_size());
        return value;
    }
};

inline constexpr Abi kOpenMpi = {
    .name = "Open MPI",
    .handles_are_ints = false,
    .in_place = 1,
    .status_ignore = 0,
    .status = {.size = 24, .error = 8},
    .request_null = 0,
    .datatype_null = 0,
    .info_null = 0,
    .byte = 0,
    .integer = 0,
    .comm_world = 0,
    .comm_self = 0,
    .comm_null = 0,
    .errors_return = 0,
    .win_null = 0,
    .operations = {},
    .any_source = -1,
    .proc_null = -2,
    .root = -4,
    .undefined = -32766,
    .error_other = GDR_OPEN_MPI_ERR_OTHER,
    .cart = 1,
    .graph = 2,
    .dist_graph = 3,
    .order_c = 0,
    .combiners = {.named = 0,
                  .dup = 1,
                  .contiguous = 2,
                  .vector = 3,
                  .hvector = 5,
                  .indexed = 6,
                  .hindexed = 8,
                  .indexed_block = 9,
                  .hindexed_block = 18,
                  .structure = 11,
                  .subarray = 12,
                  .darray = 13,
                  .resized = 17,
                  .f90 = 14},
    .distributions = {.none = 2, .cyclic = 1, .default_argument = -1},
    .flavors = {.keyval = 10, .create = 1, .allocate = 2, .dynamic = 3},
};

inline constexpr Abi kMpich = {
    .name = "MPICH",
    .handles_are_ints = true,
    .in_place = static_cast<Word>(-1),
    .status_ignore = 1,
    .status = {.size = 20, .error = 16},
    .request_null = 0x2c000000,
    .datatype_null = 0x0c000000,
    .info_null = 0x1c000000,
    .byte = 0x4c00010d,
    .integer = 0x4c000405,
    .comm_world = 0x44000000,
    .comm_self = 0x44000001,
    .comm_null = 0x04000000,
    .errors_return = 0x54000001,
    .win_null = 0x20000000,
    .operations = {0x58000003, 0x58000004, 0x58000002, 0x58000001, 0x58000005, 0x58000007,
                   0x58000009, 0x58000006, 0x58000008, 0x5800000a, 0x5800000b, 0x5800000c},
    .any_source = -2,
    .proc_null = -1,
    .root = -3,
    .undefined = -32766,
    .error_other = GDR_MPICH_ERR_OTHER,
    .cart = 2,
    .graph = 1,
    .dist_graph = 3,
    .order_c = 56,
    .combiners = {.named = 1,
                  .dup = 2,
                  .contiguous = 3,
                  .vector = 4,
                  .hvector = 6,
                  .indexed = 7,
                  .hindexed = 9,
                  .indexed_block = 10,
                  .hindexed_block = 19,
                  .structure = 12,
                  .subarray = 13,
                  .darray = 14,
                  .resized = 18,
                  .f90 = 15},
    .distributions = {.none = 123, .cyclic = 122, .default_argument = -49767},
    .flavors = {.keyval = 0x66000007, .create = 1, .allocate = 2, .dynamic = 3},
};

inline constexpr Abi kStandardAbi = {
    .name = "MPI's standard ABI",
    .handles_are_ints = false,
    .in_place = 1,
    .status_ignore = 0,
    .status = {.size = 32, .error = 8},
    .request_null = 0x180,
    .datatype_null = 0x200,
    .info_null = 0x130,
    .byte = 0x247,
    .integer = 0x209,
    .comm_world = 0x101,
    .comm_self = 0x102,
    .comm_null = 0x100,
    .errors_return = 0x143,
    .win_null = 0x110,
    .operations = {0x21, 0x24, 0x22, 0x23, 0x30, 0x31, 0x32, 0x28, 0x29, 0x2a, 0x38, 0x39},
    .any_source = -1,
    .proc_null = -3,
    .root = -4,
    .undefined = -32766,
    .error_other = 16,
    .cart = 211,
    .graph = 212,
    .dist_graph = 213,
    .order_c = 12,
    .combiners = {.named = 101,
                  .dup = 102,
                  .contiguous = 103,
                  .vector = 104,
                  .hvector = 105,
                  .indexed = 106,
                  .hindexed = 107,
                  .indexed_block = 108,
                  .hindexed_block = 109,
                  .structure = 110,
                  .subarray = 111,
                  .darray = 112,
                  .resized = 116,
                  .f90 = 113},
    .distributions = {.none = 16, .cyclic = 18, .default_argument = 19},
    .flavors = {.keyval = 604, .create = 311, .allocate = 312, .dynamic = 313},
};

} // namespace gdr::mpi
