// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What applications ask before they pass GPU memory. If the module does not serve, the answer is
// the library's own.
#include "mpi/entries/entry.h"
#include "preload/objects.h"

enum { MPIX_GPU_SUPPORT_CUDA = 0 };

static int is_served(const void* by)
{
    const struct gdr_mpi_service* const offered = service();
    function* const in_library = (function*)gdr_function_for(by, "PMPI_Get_library_version");
    return offered && in_library && offered->enabled(in_library);
}

static int query_cuda(const char* name, const void* by)
{
    if (is_served(by)) {
        return 1;
    }
    int (*query)(void) = gdr_function_for(by, name);
    return query ? query() : 0;
}

// MPICH answers MPIX_Query_cuda_support by calling MPIX_GPU_query_support. A program that asks
// MPICH through its handle bypasses this library with its calls, too.
static int query_gpu(const char* name, const void* by, int type, int* supported)
{
    int (*query)(int, int*) = gdr_function_for(by, name);
    *supported = type == MPIX_GPU_SUPPORT_CUDA && is_served(by) &&
                 !(query && gdr_mpi_is_of_library(by, (function*)query));
    return *supported || !query ? 0 : query(type, supported);
}

EXPORT int MPIX_Query_cuda_support(void);
EXPORT int PMPIX_Query_cuda_support(void);
EXPORT int MPIX_GPU_query_support(int type, int* supported);
EXPORT int PMPIX_GPU_query_support(int type, int* supported);

int MPIX_Query_cuda_support(void)
{
    return query_cuda("MPIX_Query_cuda_support", __builtin_return_address(0));
}

int PMPIX_Query_cuda_support(void)
{
    return query_cuda("PMPIX_Query_cuda_support", __builtin_return_address(0));
}

int MPIX_GPU_query_support(int type, int* supported)
{
    return query_gpu("MPIX_GPU_query_support", __builtin_return_address(0), type, supported);
}

int PMPIX_GPU_query_support(int type, int* supported)
{
    return query_gpu("PMPIX_GPU_query_support", __builtin_return_address(0), type, supported);
}
