// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// libgdr_mpi.so.0: MPI_X and PMPI_X for each call in calls.list. Until the module offers its
// service, and so in all programs on machines without a GPU, they lead straight to the MPI
// library's functions. From then on they look at each buffer first, which takes a few comparisons
// for host memory.
//
// Open MPI's Fortran bindings call PMPI_X, MPICH's call MPI_X. A profiling tool that is loaded
// after this library gets MPI_X first and then calls PMPI_X, which does the work; a tool loaded
// before it does so anyway.
#include "mpi/entries/constants.h"
#include "mpi/entries/names.h"
#include "mpi/entries/service.h"
#include "preload/objects.h"
#include "tables/page_sets.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef gdr_mpi_word word;
typedef gdr_mpi_function function;

#define ENTRY(index, name, parameters, passed, is_nothing)                                         \
    static int entry_P##name parameters;                                                           \
    static int entry_##name parameters;                                                            \
    static function* choose_P##name(void);                                                         \
    static function* choose_##name(void);
#include "mpi/entries/entries.inc"
#undef ENTRY
static const struct gdr_mpi_name names[] = {
#define ENTRY(index, name, parameters, passed, is_nothing)                                         \
    {"P" #name,                                                                                    \
     {{(function*)entry_P##name, choose_P##name}, {(function*)entry_##name, choose_##name}}},
#include "mpi/entries/entries.inc"
#undef ENTRY
};
enum { CALLS = sizeof(names) / sizeof(*names) };
_Static_assert((size_t)CALLS <= GDR_MPI_MOST_NAMES, "too many for gdr_mpi_show_names()");

// The entries read these, and `host`, with plain loads, which compilers fold into comparisons and
// jumps. Each is one word, stored at once, that never becomes invalid again.
static function* own[CALLS];   // the library's PMPI_X
static function* outer[CALLS]; // a tool's MPI_X, or the same
#define LOAD(of) __atomic_load_n(&(of), __ATOMIC_ACQUIRE)
#define STORE(to, value) __atomic_store_n(&(to), value, __ATOMIC_RELEASE)

static _Atomic(const struct gdr_mpi_service*) service = NULL;

// Copies of the service's fields, so that a look at them takes no register. Without a service all
// memory is host memory, and there are no requests.
static const word none = 0;
static word no_pages[GDR_PAGE_WAYS << GDR_PAGE_SET_BITS];
static struct gdr_mpi_host_memory host = {
    .variables = 0, .variables_last = UINTPTR_MAX, .heap_end = &none, .pages = no_pages};
static const word *requests = &none, *partitions = &none, *in_epochs = &none;

// The MPI library's own calls during a call are not looked at again; calls that its callbacks make
// are handled as others.
static __thread int depth __attribute__((tls_model("initial-exec"))) = 0;

// One thread at a time. Other threads may read a mixture of old and new words, which never forms a
// range that neither has: an empty range begins at the last address and ends at 0.
static void see(const struct gdr_mpi_host_memory* offered)
{
    STORE(host.pages, offered->pages);
    STORE(host.heap_end, offered->heap_end);
    STORE(host.heap, offered->heap);
    STORE(host.any_stack, offered->any_stack);
    STORE(host.variables, offered->variables);
    STORE(host.variables_last, offered->variables_last);
}

EXPORT int gdr_mpi_serve(const struct gdr_mpi_service* offered)
{
    if (offered->calls != CALLS) {
        return 0;
    }
    atomic_store(&service, offered);
    STORE(requests, offered->requests);
    STORE(partitions, offered->partitions);
    STORE(in_epochs, offered->in_epochs);
    see(&offered->host);
    return 1;
}

// Of this thread; unknown while its end is 0.
static __thread struct gdr_mpi_stack stack __attribute__((tls_model("initial-exec"))) = {0, 0};

// Whether a buffer of the caller, or of callers above it, is in host memory. frame: the entry's
// frame.
typedef int look(word buffer, word frame);

static inline int is_seen_at_once(word buffer, word frame)
{
    const word page = gdr_page_of(buffer);
    return (buffer >= host.variables && buffer <= host.variables_last) ||
           (buffer >= host.heap && buffer < *host.heap_end) ||
           (buffer >= frame && frame >= stack.start && buffer < stack.end && host.any_stack) ||
           host.pages[gdr_page_set_of(page) * GDR_PAGE_WAYS] == page;
}

static int is_seen(word buffer, word frame)
{
    const struct gdr_mpi_service* by = atomic_load(&service);
    if (!stack.end) {
        stack = by->stack_of_thread();
    }
    return is_seen_at_once(buffer, frame) || by->is_host_memory(buffer);
}

// NULL: the library has no such function.
__attribute__((noinline, cold)) static function* find_own(unsigned index, const void* by)
{
    function* found = (function*)gdr_function_for(by, names[index].name);
    STORE(own[index], found);
    const struct gdr_mpi_service* by_service = atomic_load(&service);
    if (found && by_service) {
        by_service->first_called(found);
    }
    return found;
}

// NULL: the library has no such call.
__attribute__((noinline, cold)) static function* find_outer(unsigned index, const void* by)
{
    function* in_library = find_own(index, by);
    if (!in_library) {
        return NULL;
    }
    function* next = (function*)gdr_function_for(by, names[index].name + 1);
    if (!next || gdr_object_of((const void*)next) == gdr_object_of((const void*)in_library)) {
        next = in_library;
    }
    STORE(outer[index], next);
    return next;
}

// The caller, for the lookups: calls within this library are not always tail calls.
static __thread const void* caller __attribute__((tls_model("initial-exec"))) = NULL;

// A caller bound the name before it was known that the MPI library lacks it.
__attribute__((noinline, cold)) static int lacks(unsigned index)
{
    fprintf(stderr, "gdr: the MPI library of this program has no %s\n", names[index].name + 1);
    return gdr_function_for(caller, "ompi_mpi_comm_world") ? GDR_OPEN_MPI_ERR_OTHER
                                                           : GDR_MPICH_ERR_OTHER;
}

// Whether the MPI library of this function makes the call, itself or through a component of Open
// MPI.
__attribute__((noinline, cold)) static int is_of_library(const void* by, function* in_library)
{
    struct gdr_object object;
    if (!gdr_find_object(by, &object)) {
        return 0;
    }
    const word address = (word)in_library;
    const char* const slash = strrchr(object.name, '/');
    return (address >= object.start && address < object.end) ||
           (slash && strncmp(slash, "/mca_", strlen("/mca_")) == 0);
}

// Rare cases are functions of their own, so that the rest needs no stack and ends in a jump. The
// library's function is loaded last, so that the look can use the remaining registers.
#define LIST(...) __VA_ARGS__
#define PASS_ON(to, index, name, parameters, passed, is_nothing)                                   \
    if (__builtin_expect(!to[index], 0)) {                                                         \
        caller = __builtin_return_address(0);                                                      \
        return first_of_##name passed;                                                             \
    }                                                                                              \
    const word frame = (word)__builtin_dwarf_cfa();                                                \
    look* const is_host = is_seen_at_once;                                                         \
    (void)frame, (void)is_host;                                                                    \
    if (__builtin_expect(!(is_nothing), 0))                                                        \
        return look_at_##name passed;                                                              \
    return ((int(*) parameters)LOAD(to[index]))passed
#define ENTRY(index, name, parameters, passed, is_nothing)                                         \
    EXPORT int P##name parameters;                                                                 \
    EXPORT int name parameters;                                                                    \
    __attribute__((noinline, cold)) static int first_of_P##name parameters                         \
    {                                                                                              \
        return find_own(index, caller) ? entry_P##name passed : lacks(index);                      \
    }                                                                                              \
    __attribute__((noinline, cold)) static int first_of_##name parameters                          \
    {                                                                                              \
        return find_outer(index, caller) ? entry_##name passed : lacks(index);                     \
    }                                                                                              \
    __attribute__((noinline, cold)) static int look_at_P##name parameters                          \
    {                                                                                              \
        function* to = LOAD(own[index]);                                                           \
        const struct gdr_mpi_service* by = atomic_load(&service);                                  \
        const word frame = (word)__builtin_dwarf_cfa();                                            \
        look* const is_host = is_seen;                                                             \
        (void)frame, (void)is_host;                                                                \
        if (!by || (is_nothing))                                                                   \
            return ((int(*) parameters)to)passed;                                                  \
        word arguments[] = {LIST passed};                                                          \
        if (!depth || !is_of_library(__builtin_return_address(0), to))                             \
            return by->call(index, to, arguments, &depth);                                         \
        by->forwarded(index, arguments);                                                           \
        return ((int(*) parameters)to)passed;                                                      \
    }                                                                                              \
    __attribute__((noinline, cold)) static int look_at_##name parameters                           \
    {                                                                                              \
        function* to = LOAD(outer[index]);                                                         \
        if (to == LOAD(own[index]))                                                                \
            return look_at_P##name passed;                                                         \
        const struct gdr_mpi_service* by = atomic_load(&service);                                  \
        const word arguments[] = {LIST passed};                                                    \
        if (by)                                                                                    \
            by->forwarded(index, arguments);                                                       \
        return ((int(*) parameters)to)passed;                                                      \
    }                                                                                              \
    static int entry_P##name parameters                                                            \
    {                                                                                              \
        PASS_ON(own, index, P##name, parameters, passed, is_nothing);                              \
    }                                                                                              \
    static int entry_##name parameters                                                             \
    {                                                                                              \
        PASS_ON(outer, index, name, parameters, passed, is_nothing);                               \
    }                                                                                              \
    int P##name parameters __attribute__((alias("entry_P" #name)));                                \
    int name parameters __attribute__((alias("entry_" #name)));                                    \
    static function* choose_P##name(void)                                                          \
    {                                                                                              \
        return gdr_mpi_shows("P" #name) ? (function*)entry_P##name : NULL;                         \
    }                                                                                              \
    static function* choose_##name(void)                                                           \
    {                                                                                              \
        return gdr_mpi_shows("P" #name) ? (function*)entry_##name : NULL;                          \
    }
#include "mpi/entries/entries.inc"

// An indirect function in this library itself: the dynamic linker resolves it when it relocates
// this library, after everything else.
static void names_are_shown(void) {}
static function* show_names(void)
{
    gdr_mpi_show_names(names, CALLS);
    return names_are_shown;
}
static void relocated(void) __attribute__((ifunc("show_names")));
__attribute__((constructor)) static void after_relocation(void)
{
    relocated();
}

EXPORT int gdr_mpi_heard(const char* name)
{
    for (unsigned i = 0; i < CALLS; ++i) {
        if (strcmp(names[i].name + 1, name) == 0) {
            return LOAD(own[i]) != NULL;
        }
    }
    return 1; // there is no entry for it
}

// What applications ask before they pass GPU memory. If the module does not serve, the answer is
// the library's own.
enum { MPIX_GPU_SUPPORT_CUDA = 0 };

static int is_served(const void* by)
{
    const struct gdr_mpi_service* offered = atomic_load(&service);
    function* in_library = (function*)gdr_function_for(by, "PMPI_Get_library_version");
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
                 !(query && is_of_library(by, (function*)query));
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
