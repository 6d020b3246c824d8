// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI library of the process: its ABI, and those of its functions that the layer itself needs.
// Handles are passed as words.
#pragma once

#include "mpi/interface/abi.hpp"

#include <cstdint>

// Name and parameters.
#define GDR_MPI_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(Allgather, (const void* in, int in_count, Word in_type, void* out, int out_count,     \
                         Word out_type, Word comm))                                                \
    FUNCTION(Allreduce, (const void* in, void* out, int count, Word type, Word op, Word comm))     \
    FUNCTION(Bcast, (void* buffer, int count, Word type, int root, Word comm))                     \
    FUNCTION(Cancel, (Word * request))                                                             \
    FUNCTION(Comm_call_errhandler, (Word comm, int code))                                          \
    FUNCTION(Comm_create_keyval,                                                                   \
             (int (*copy)(Word, int, void*, void*, void*, int*),                                   \
              int (*forget)(Word, int, void*, void*), int* keyval, void* extra))                   \
    FUNCTION(Comm_delete_attr, (Word comm, int keyval))                                            \
    FUNCTION(Comm_free, (Word * comm))                                                             \
    FUNCTION(Comm_get_attr, (Word comm, int keyval, void* value, int* found))                      \
    FUNCTION(Comm_set_attr, (Word comm, int keyval, void* value))                                  \
    FUNCTION(Comm_set_errhandler, (Word comm, Word handler))                                       \
    FUNCTION(Comm_split, (Word comm, int colour, int key, Word* made))                             \
    FUNCTION(Irecv, (void* to, int count, Word type, int from, int tag, Word comm, Word* request)) \
    FUNCTION(Isend,                                                                                \
             (const void* from, int count, Word type, int to, int tag, Word comm, Word* request))  \
    FUNCTION(Comm_rank, (Word comm, int* rank))                                                    \
    FUNCTION(Comm_size, (Word comm, int* size))                                                    \
    FUNCTION(Comm_remote_size, (Word comm, int* size))                                             \
    FUNCTION(Comm_test_inter, (Word comm, int* inter))                                             \
    FUNCTION(Get_count, (const void* status, Word type, int* count))                               \
    FUNCTION(Get_library_version, (char* text, int* length))                                       \
    FUNCTION(Group_free, (Word * group))                                                           \
    FUNCTION(Group_rank, (Word group, int* rank))                                                  \
    FUNCTION(Info_set, (Word info, const char* key, const char* value))                            \
    FUNCTION(Pack, (const void* in, int count, Word type, void* packed, int room, int* position,   \
                    Word comm))                                                                    \
    FUNCTION(Pack_size, (int count, Word type, Word comm, int* size))                              \
    FUNCTION(Put, (const void* from, int count, Word type, int target, intptr_t at, int to_count,  \
                   Word to_type, Word window))                                                     \
    FUNCTION(Reduce_local, (const void* in, void* in_and_out, int count, Word type, Word op))      \
    FUNCTION(Request_free, (Word * request))                                                       \
    FUNCTION(Request_get_status, (Word request, int* flag, Word status))                           \
    FUNCTION(Send, (const void* from, int count, Word type, int to, int tag, Word comm))           \
    FUNCTION(Test, (Word * request, int* flag, Word status))                                       \
    FUNCTION(Test_cancelled, (const void* status, int* cancelled))                                 \
    FUNCTION(Topo_test, (Word comm, int* status))                                                  \
    FUNCTION(Cartdim_get, (Word comm, int* dimensions))                                            \
    FUNCTION(Graph_neighbors_count, (Word comm, int rank, int* neighbours))                        \
    FUNCTION(Dist_graph_neighbors_count, (Word comm, int* in, int* out, int* weighted))            \
    FUNCTION(Type_commit, (Word * type))                                                           \
    FUNCTION(Type_contiguous, (int count, Word type, Word* made))                                  \
    FUNCTION(Type_create_hindexed, (int count, const int* lengths, const intptr_t* displacements,  \
                                    Word type, Word* made))                                        \
    FUNCTION(Type_dup, (Word type, Word * made))                                                   \
    FUNCTION(Type_free, (Word * type))                                                             \
    FUNCTION(Type_get_name, (Word type, char* name, int* length))                                  \
    FUNCTION(Wait, (Word * request, Word status))                                                  \
    FUNCTION(Win_call_errhandler, (Word window, int code))                                         \
    FUNCTION(Win_flush_local, (int target, Word window))                                           \
    FUNCTION(Win_get_attr, (Word window, int keyval, void* value, int* found))                     \
    FUNCTION(Win_get_group, (Word window, Word * group))                                           \
    FUNCTION(Type_size, (Word type, int* size))                                                    \
    FUNCTION(Type_get_contents, (Word type, int integers, int addresses, int types, int* integer,  \
                                 intptr_t* address, void* type_handles))                           \
    FUNCTION(Type_get_envelope,                                                                    \
             (Word type, int* integers, int* addresses, int* types, int* combiner))                \
    FUNCTION(Type_get_extent, (Word type, intptr_t * lower, intptr_t * extent))                    \
    FUNCTION(Type_get_true_extent, (Word type, intptr_t * lower, intptr_t * extent))

namespace gdr::mpi {

struct Library {
    const Abi* abi;
    Word request_null, datatype_null, info_null, byte, integer, comm_world, comm_self, comm_null,
        errors_return, win_null;
    std::array<Word, 12> operations; // in the order of kernels::Operation
    const void* pml;                 // the component that Open MPI has selected; nullptr in others
#define GDR_MPI_MEMBER(name, parameters) int(*name) parameters;
    GDR_MPI_FUNCTIONS(GDR_MPI_MEMBER)
#undef GDR_MPI_MEMBER

    // At least one of the two is not NULL.
    int (*Info_get_string)(Word info, const char* key, int* room, char* value, int* found);
    int (*Info_get)(Word info, const char* key, int longest, char* value, int* found);

    // Open MPI's own, for its parameters; NULL in others.
    int (*mca_base_var_find)(const char* project, const char* framework, const char* component,
                             const char* name);
    int (*mca_base_var_get_value)(int variable, const void* value, int* source, const char** file);

    // MPI 4's, or MPI 3's equivalent MPI_Type_size_x. They also handle types of 2 GiB and more.
    int (*Type_size_c)(Word type, int64_t* size);

    // MPICH 4's own; NULL in others. MPICH answers MPIX_Query_cuda_support by the preloaded
    // function.
    int (*GPU_query_support)(int type, int* supported);

    // NULL in a library without MPI-IO.
    int (*File_call_errhandler)(Word file, int code);

    // MPI 4's, NULL in older libraries. The small forms fail for types that were made by a large
    // one.
    int (*Type_get_envelope_c)(Word type, int64_t* integers, int64_t* addresses, int64_t* counts,
                               int64_t* types, int* combiner);
    int (*Type_get_contents_c)(Word type, int64_t integers, int64_t addresses, int64_t counts,
                               int64_t types, int* integer, intptr_t* address, int64_t* number,
                               void* type_handles);
};

// The library that holds this function; nullptr if its ABI is unknown, which is logged once. Any
// thread; the first answer is kept.
const Library* library_of(gdr_mpi_function* function);

} // namespace gdr::mpi
