// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libgdr_mpi.so.0: MPI_X and PMPI_X of each call in calls.list. Until the module offers its
// service, and so in all programs without a GPU, they lead straight to the MPI library's own.
//
// Open MPI's Fortran calls PMPI_X, MPICH's MPI_X. A tool that is behind this library gets MPI_X
// first, and calls PMPI_X, where the work is done; one in front of it does so anyway.
#include "mpi/entries/service.h"
#include "mpi/entries/small_form.h"
#include "preload/objects.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
typedef gdr_mpi_word word;
typedef gdr_mpi_function function;

static const char* const names[] = {
// without the P
#define ENTRY(index, name, parameters, passed, is_nothing) #name,
#define LARGE_ENTRY(index, name, ...) #name "_c",
#include "mpi/entries/entries.inc"
#undef ENTRY
#undef LARGE_ENTRY
};
enum { CALLS = sizeof(names) / sizeof(*names) };

static _Atomic(function*) own[CALLS];   // the library's PMPI_X
static _Atomic(function*) outer[CALLS]; // what MPI_X leads to: a tool's, or our PMPI_X
static _Atomic(const struct gdr_mpi_service*) service = NULL;

// The library's calls of itself, and ours of it, are not looked at again.
static __thread int depth __attribute__((tls_model("initial-exec"))) = 0;

EXPORT int gdr_mpi_serve(const struct gdr_mpi_service* offered)
{
    if (offered->calls != CALLS)
        return 0;
    atomic_store(&service, offered);
    return 1;
}

static _Atomic(const void*) lacking[CALLS]; // whose library has no such call

// NULL: it has none.
__attribute__((noinline, cold)) static function* find_own(unsigned index, const void* by)
{
    if (atomic_load(&lacking[index]))
        return NULL;
    char name[64];
    snprintf(name, sizeof(name), "P%s", names[index]);
    function* found = (function*)gdr_function_for(by, name);
    atomic_store(&own[index], found);
    atomic_store(&lacking[index], found == NULL ? by : NULL);
    return found;
}

// Programs that look for the call at run time find ours.
__attribute__((noinline, cold)) static int lacks(unsigned index)
{
    fprintf(stderr, "gdr: the MPI library of this program has no %s\n", names[index]);
    return gdr_mpi_error_other(atomic_load(&lacking[index]));
}

__attribute__((noinline, cold)) static function* find_outer(unsigned index, const void* by,
                                                            function* ours)
{
    function* in_library = find_own(index, by);
    function* next = (function*)gdr_function_for(by, names[index]);
    if (!next || !in_library ||
        gdr_object_of((const void*)next) == gdr_object_of((const void*)in_library))
        next = ours;
    atomic_store(&outer[index], next);
    return next;
}

// Whose call it is, for those who look functions up: what follows a call from another function of
// this library is not always a tail call.
static __thread const void* caller __attribute__((tls_model("initial-exec"))) = NULL;

// The small form stands before the large one.
__attribute__((noinline, cold)) static int by_small_form(const struct gdr_mpi_large_call* call,
                                                         unsigned index, function* ours,
                                                         const word* arguments)
{
    const void* const by = atomic_load(&lacking[index]);
    function* const small = atomic_load(&outer[index - 1]);
    return gdr_mpi_by_small_form(call, by, small ? small : find_outer(index - 1, by, ours),
                                 arguments);
}

// What is rare is in functions of its own, so that the rest needs no stack and ends in a jump.
#define LIST(...) __VA_ARGS__
#define DEFINE(index, name, parameters, passed, is_nothing, instead)                               \
    EXPORT int P##name parameters;                                                                 \
    EXPORT int name parameters;                                                                    \
    __attribute__((noinline, cold)) static int first_of_P##name parameters                         \
    {                                                                                              \
        const word arguments[] = {LIST passed};                                                    \
        (void)arguments;                                                                           \
        return find_own(index, caller) ? P##name passed : instead;                                 \
    }                                                                                              \
    __attribute__((noinline, cold)) static int first_of_##name parameters                          \
    {                                                                                              \
        find_outer(index, caller, (function*)P##name);                                             \
        return name passed;                                                                        \
    }                                                                                              \
    __attribute__((noinline)) static int look_at_##name parameters                                 \
    {                                                                                              \
        const struct gdr_mpi_service* by = atomic_load_explicit(&service, memory_order_acquire);   \
        function* to = atomic_load_explicit(&own[index], memory_order_acquire);                    \
        if (__builtin_expect(is_nothing, 1))                                                       \
            return ((int(*) parameters)to)passed;                                                  \
        word arguments[] = {LIST passed};                                                          \
        return by->call(index, to, arguments, &depth);                                             \
    }                                                                                              \
    EXPORT int P##name parameters                                                                  \
    {                                                                                              \
        function* to = atomic_load_explicit(&own[index], memory_order_acquire);                    \
        if (__builtin_expect(!to, 0)) {                                                            \
            caller = __builtin_return_address(0);                                                  \
            return first_of_P##name passed;                                                        \
        }                                                                                          \
        if (atomic_load_explicit(&service, memory_order_acquire) && !depth)                        \
            return look_at_##name passed;                                                          \
        return ((int(*) parameters)to)passed;                                                      \
    }                                                                                              \
    EXPORT int name parameters                                                                     \
    {                                                                                              \
        function* to = atomic_load_explicit(&outer[index], memory_order_acquire);                  \
        if (__builtin_expect(!to, 0)) {                                                            \
            caller = __builtin_return_address(0);                                                  \
            return first_of_##name passed;                                                         \
        }                                                                                          \
        return ((int(*) parameters)to)passed;                                                      \
    }
#define ENTRY(index, name, parameters, passed, is_nothing)                                         \
    DEFINE(index, name, parameters, passed, is_nothing, lacks(index))
#define LARGE_ENTRY(index, name, parameters, passed, is_nothing, narrowing, comm, root, stays)     \
    DEFINE(index, name##_c, parameters, passed, is_nothing,                                        \
           by_small_form(&(const struct gdr_mpi_large_call){narrowing, comm, root, stays}, index,  \
                         (function*)P##name, arguments))
#include "mpi/entries/entries.inc"

// What applications ask before they pass GPU memory. Where the module does not serve the answer is
// the library's own.
enum { MPIX_GPU_SUPPORT_CUDA = 0 };

static int is_served(const void* by)
{
    const struct gdr_mpi_service* offered = atomic_load(&service);
    function* in_library = (function*)gdr_function_for(by, "PMPI_Get_library_version");
    return offered && in_library && offered->serves(in_library);
}

static int query_cuda(const char* name, const void* by)
{
    if (is_served(by))
        return 1;
    int (*query)(void) = gdr_function_for(by, name);
    return query ? query() : 0;
}

static int query_gpu(const char* name, const void* by, int type, int* supported)
{
    int (*query)(int, int*) = gdr_function_for(by, name);
    *supported = type == MPIX_GPU_SUPPORT_CUDA && is_served(by);
    return *supported || !query ? 0 : query(type, supported);
}

#define QUERIES(prefix)                                                                            \
    EXPORT int prefix##MPIX_Query_cuda_support(void);                                              \
    EXPORT int prefix##MPIX_Query_cuda_support(void)                                               \
    {                                                                                              \
        return query_cuda(#prefix "MPIX_Query_cuda_support", __builtin_return_address(0));         \
    }                                                                                              \
    EXPORT int prefix##MPIX_GPU_query_support(int type, int* supported);                           \
    EXPORT int prefix##MPIX_GPU_query_support(int type, int* supported)                            \
    {                                                                                              \
        return query_gpu(#prefix "MPIX_GPU_query_support", __builtin_return_address(0), type,      \
                         supported);                                                               \
    }
QUERIES()
QUERIES(P)
