// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// abi_check.openmpi, abi_check.mpich: src/mpi/interface/abi.hpp's constants, which the layer uses
// without a mpi.h, against the mpi.h of the MPI, or of MPI's standard ABI, that this is compiled
// with.
#include "mpi/interface/abi.hpp"

#include <cstddef>
#include <cstdio>
#include <type_traits>

#include <mpi.h>

namespace {

#if defined(OPEN_MPI)
constexpr const gdr::mpi::Abi& kAbi = gdr::mpi::kOpenMpi;
#elif defined(MPICH_VERSION)
constexpr const gdr::mpi::Abi& kAbi = gdr::mpi::kMpich;
#else
constexpr const gdr::mpi::Abi& kAbi = gdr::mpi::kStandardAbi;
#endif

int failed = 0;

template <typename Value>
gdr::mpi::Word word(Value value)
{
    if constexpr (std::is_pointer_v<Value>) {
        return reinterpret_cast<gdr::mpi::Word>(value);
    } else {
        return kAbi.handle(static_cast<gdr::mpi::Word>(value));
    }
}

void expect(const char* name, long long declared, long long real)
{
    if (declared == real) {
        return;
    }
    std::printf("FAILED: %s: %s is %lld in mpi.h, %lld in src/mpi/interface/abi.hpp\n", kAbi.name,
                name, real, declared);
    failed = 1;
}

} // namespace

int main()
{
#define INTEGER(member, constant) expect(#constant, kAbi.member, constant)
    INTEGER(any_source, MPI_ANY_SOURCE);
    INTEGER(proc_null, MPI_PROC_NULL);
    INTEGER(root, MPI_ROOT);
    INTEGER(undefined, MPI_UNDEFINED);
    INTEGER(error_other, MPI_ERR_OTHER);
    INTEGER(cart, MPI_CART);
    INTEGER(graph, MPI_GRAPH);
    INTEGER(dist_graph, MPI_DIST_GRAPH);
    INTEGER(order_c, MPI_ORDER_C);
    INTEGER(flavors.keyval, MPI_WIN_CREATE_FLAVOR);
    INTEGER(flavors.create, MPI_WIN_FLAVOR_CREATE);
    INTEGER(flavors.allocate, MPI_WIN_FLAVOR_ALLOCATE);
    INTEGER(flavors.dynamic, MPI_WIN_FLAVOR_DYNAMIC);
    INTEGER(combiners.named, MPI_COMBINER_NAMED);
    INTEGER(combiners.dup, MPI_COMBINER_DUP);
    INTEGER(combiners.contiguous, MPI_COMBINER_CONTIGUOUS);
    INTEGER(combiners.vector, MPI_COMBINER_VECTOR);
    INTEGER(combiners.hvector, MPI_COMBINER_HVECTOR);
    INTEGER(combiners.indexed, MPI_COMBINER_INDEXED);
    INTEGER(combiners.hindexed, MPI_COMBINER_HINDEXED);
    INTEGER(combiners.indexed_block, MPI_COMBINER_INDEXED_BLOCK);
    INTEGER(combiners.hindexed_block, MPI_COMBINER_HINDEXED_BLOCK);
    INTEGER(combiners.structure, MPI_COMBINER_STRUCT);
    INTEGER(combiners.subarray, MPI_COMBINER_SUBARRAY);
    INTEGER(combiners.darray, MPI_COMBINER_DARRAY);
    INTEGER(combiners.resized, MPI_COMBINER_RESIZED);
    INTEGER(combiners.f90, MPI_COMBINER_F90_REAL);
    INTEGER(combiners.f90 + 1, MPI_COMBINER_F90_COMPLEX);
    INTEGER(combiners.f90 + 2, MPI_COMBINER_F90_INTEGER);
    INTEGER(distributions.none, MPI_DISTRIBUTE_NONE);
    INTEGER(distributions.cyclic, MPI_DISTRIBUTE_CYCLIC);
    INTEGER(distributions.default_argument, MPI_DISTRIBUTE_DFLT_DARG);
    expect("MPI_SUCCESS", 0, MPI_SUCCESS);
    expect("MPI_BOTTOM", 0, static_cast<long long>(reinterpret_cast<gdr::mpi::Word>(MPI_BOTTOM)));
    expect("MPI_IN_PLACE", static_cast<long long>(kAbi.in_place),
           static_cast<long long>(reinterpret_cast<gdr::mpi::Word>(MPI_IN_PLACE)));
    expect("MPI_STATUS_IGNORE", static_cast<long long>(kAbi.status_ignore),
           static_cast<long long>(reinterpret_cast<gdr::mpi::Word>(MPI_STATUS_IGNORE)));
    expect("MPI_STATUSES_IGNORE", static_cast<long long>(kAbi.status_ignore),
           static_cast<long long>(reinterpret_cast<gdr::mpi::Word>(MPI_STATUSES_IGNORE)));
    expect("sizeof(MPI_Status)", kAbi.status.size, sizeof(MPI_Status));
    expect("MPI_Status.MPI_ERROR", kAbi.status.error, offsetof(MPI_Status, MPI_ERROR));
    expect("sizeof(MPI_Datatype)", static_cast<long long>(kAbi.handle_size()),
           sizeof(MPI_Datatype));
    expect("sizeof(MPI_Request)", static_cast<long long>(kAbi.handle_size()), sizeof(MPI_Request));
    expect("sizeof(MPI_Count)", sizeof(int64_t), sizeof(MPI_Count));
    expect("sizeof(MPI_Aint)", sizeof(intptr_t), sizeof(MPI_Aint));
    if (kAbi.request_null != 0) { // else the address of an object
        expect("MPI_REQUEST_NULL", static_cast<long long>(kAbi.request_null),
               static_cast<long long>(word(MPI_REQUEST_NULL)));
    }
    if (kAbi.byte != 0) {
        expect("MPI_BYTE", static_cast<long long>(kAbi.byte),
               static_cast<long long>(word(MPI_BYTE)));
    }
    if (kAbi.integer != 0) {
        expect("MPI_INT", static_cast<long long>(kAbi.integer),
               static_cast<long long>(word(MPI_INT)));
    }
    if (kAbi.comm_world != 0) {
        expect("MPI_COMM_WORLD", static_cast<long long>(kAbi.comm_world),
               static_cast<long long>(word(MPI_COMM_WORLD)));
    }
    if (kAbi.comm_self != 0) {
        expect("MPI_COMM_SELF", static_cast<long long>(kAbi.comm_self),
               static_cast<long long>(word(MPI_COMM_SELF)));
    }
    if (kAbi.comm_null != 0) {
        expect("MPI_COMM_NULL", static_cast<long long>(kAbi.comm_null),
               static_cast<long long>(word(MPI_COMM_NULL)));
    }
    if (kAbi.errors_return != 0) {
        expect("MPI_ERRORS_RETURN", static_cast<long long>(kAbi.errors_return),
               static_cast<long long>(word(MPI_ERRORS_RETURN)));
    }
    if (kAbi.win_null != 0) {
        expect("MPI_WIN_NULL", static_cast<long long>(kAbi.win_null),
               static_cast<long long>(word(MPI_WIN_NULL)));
    }
    const MPI_Op operations[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                                 MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    for (size_t i = 0; i < kAbi.operations.size() && kAbi.operations[0] != 0; ++i) {
        expect("an MPI_Op", static_cast<long long>(kAbi.operations[i]),
               static_cast<long long>(word(operations[i])));
    }
    if (kAbi.info_null != 0) {
        expect("MPI_INFO_NULL", static_cast<long long>(kAbi.info_null),
               static_cast<long long>(word(MPI_INFO_NULL)));
    }
    if (kAbi.datatype_null != 0) {
        expect("MPI_DATATYPE_NULL", static_cast<long long>(kAbi.datatype_null),
               static_cast<long long>(word(MPI_DATATYPE_NULL)));
    }
    return failed;
}
