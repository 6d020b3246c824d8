// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "mpi/entries/small_form.h"

#include "mpi/entries/constants.h"
#include "preload/objects.h"

#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef gdr_mpi_word word;

enum { MOST_ARGUMENTS = 16 };

// Libraries without MPI_X_c are Open MPI and MPICH's family, which differ in these.
struct constants {
    int root, error_other, cart, graph;
    word in_place;
};

static int is_open_mpi(const void* caller)
{
    return gdr_function_for(caller, "ompi_mpi_comm_world") != NULL;
}

static struct constants constants_of(const void* caller)
{
    static const struct constants open_mpi = {GDR_OPEN_MPI_ROOT, GDR_OPEN_MPI_ERR_OTHER,
                                              GDR_OPEN_MPI_CART, GDR_OPEN_MPI_GRAPH,
                                              GDR_OPEN_MPI_IN_PLACE};
    static const struct constants mpich = {GDR_MPICH_ROOT, GDR_MPICH_ERR_OTHER, GDR_MPICH_CART,
                                           GDR_MPICH_GRAPH, (word)GDR_MPICH_IN_PLACE};
    return is_open_mpi(caller) ? open_mpi : mpich;
}

int gdr_mpi_error_other(const void* caller)
{
    return constants_of(caller).error_other;
}

// An MPI function whose arguments are words.
static int query(const void* caller, const char* name, word a, word b, word c, word d)
{
    int (*function)(word, word, word, word) = gdr_function_for(caller, name);
    return function == NULL ? gdr_mpi_error_other(caller) : function(a, b, c, d);
}

static int ranks(const void* caller, word comm, int local)
{
    int inter = 0, size = 0;
    query(caller, "PMPI_Comm_test_inter", comm, (word)&inter, 0, 0);
    query(caller, inter && !local ? "PMPI_Comm_remote_size" : "PMPI_Comm_size", comm, (word)&size,
          0, 0);
    return size;
}

static int is_root(const void* caller, word comm, int root)
{
    int inter = 0, rank = 0;
    query(caller, "PMPI_Comm_test_inter", comm, (word)&inter, 0, 0);
    if (inter)
        return root == constants_of(caller).root;
    query(caller, "PMPI_Comm_rank", comm, (word)&rank, 0, 0);
    return root == rank;
}

static int neighbours(const void* caller, word comm, int sources)
{
    const struct constants constants = constants_of(caller);
    int topology = 0, in = 0, out = 0, weighted = 0, rank = 0;
    query(caller, "PMPI_Topo_test", comm, (word)&topology, 0, 0);
    if (topology == constants.cart) {
        query(caller, "PMPI_Cartdim_get", comm, (word)&in, 0, 0);
        return 2 * in;
    }
    if (topology == constants.graph) {
        query(caller, "PMPI_Comm_rank", comm, (word)&rank, 0, 0);
        query(caller, "PMPI_Graph_neighbors_count", comm, (word)rank, (word)&in, 0);
        return in;
    }
    query(caller, "PMPI_Dist_graph_neighbors_count", comm, (word)&in, (word)&out, (word)&weighted);
    return sources ? in : out;
}

// -1: not significant here.
static int length_of(const struct gdr_mpi_large_call* call, const void* caller, const word* words,
                     char argument)
{
    const word comm = words[call->comm];
    switch (argument) {
    case GDR_MPI_OF_ROOT:
        return is_root(caller, comm, (int)words[call->root]) ? ranks(caller, comm, 0) : -1;
    case GDR_MPI_OF_SENDING:
        return words[0] == constants_of(caller).in_place ? -1 : ranks(caller, comm, 0);
    case GDR_MPI_OF_LOCAL:
        return ranks(caller, comm, 1);
    case GDR_MPI_OF_SOURCES:
    case GDR_MPI_OF_TARGETS:
        return neighbours(caller, comm, argument == GDR_MPI_OF_SOURCES);
    default:
        return ranks(caller, comm, 0);
    }
}

// Of a request that a call has made.
static word handle_at(const void* request, const void* caller)
{
    return is_open_mpi(caller) ? *(const word*)request : (word) * (const unsigned*)request;
}

struct array {
    struct array* next; // of the same call
    int values[];
};

static void free_all(struct array* arrays)
{
    while (arrays != NULL) {
        struct array* const next = arrays->next;
        free(arrays);
        arrays = next;
    }
}

struct request {
    word handle;
    struct array* arrays; // that MPI may read until it is complete
};

static int compare(const void* a, const void* b)
{
    const struct request *first = a, *second = b;
    return first->handle == second->handle ? 0 : first->handle < second->handle ? -1 : 1;
}

// Until MPI gives the handle again, to another request: then this one has ended. Those that are
// complete at once have one handle.
static void keep(word handle, struct array* arrays)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void* tree = NULL;
    struct request* const made = malloc(sizeof(*made));
    if (made == NULL)
        return; // MPI reads them
    *made = (struct request){handle, NULL};
    pthread_mutex_lock(&mutex);
    struct request** const found = tsearch(made, &tree, compare);
    struct array* ended = NULL;
    if (found != NULL) {
        ended = (*found)->arrays;
        (*found)->arrays = arrays;
    }
    if (found == NULL || *found != made)
        free(made);
    pthread_mutex_unlock(&mutex);
    free_all(ended);
}

static int fits(int64_t value)
{
    return value >= INT_MIN && value <= INT_MAX;
}

// Before the others. What MPI returns.
static int narrow(struct array** arrays, const int64_t* wide, int length, const void* caller)
{
    struct array* const array = malloc(sizeof(*array) + sizeof(int) * (size_t)length);
    if (array == NULL)
        return gdr_mpi_error_other(caller);
    array->next = *arrays;
    *arrays = array;
    for (int i = 0; i < length; ++i) {
        if (!fits(wide[i]))
            return GDR_MPI_ERR_COUNT;
        array->values[i] = (int)wide[i];
    }
    return 0;
}

int gdr_mpi_by_small_form(const struct gdr_mpi_large_call* call, const void* caller,
                          gdr_mpi_function* small, const word* words)
{
    const int count = (int)strlen(call->arguments);
    word a[MOST_ARGUMENTS] = {0};
    struct array* arrays = NULL;
    int64_t* wide = NULL;
    int position = 0, result = 0;
    for (int i = 0; i < count && result == 0; ++i) {
        a[i] = words[i];
        switch (call->arguments[i]) {
        case GDR_MPI_SAME:
            break;
        case GDR_MPI_COUNT:
            result = fits((int64_t)words[i]) ? 0 : GDR_MPI_ERR_COUNT;
            break;
        case GDR_MPI_POSITION:
            wide = (int64_t*)words[i];
            position = (int)*wide;
            result = fits(*wide) ? 0 : GDR_MPI_ERR_COUNT;
            a[i] = (word)&position;
            break;
        case GDR_MPI_SIZE:
            wide = (int64_t*)words[i];
            a[i] = (word)&position;
            break;
        default: {
            const int length =
                words[i] == 0 ? -1 : length_of(call, caller, words, call->arguments[i]);
            if (length < 0)
                break;
            result = narrow(&arrays, (const int64_t*)words[i], length, caller);
            if (result == 0)
                a[i] = (word)arrays->values;
        }
        }
    }
    // More words than it takes do no harm: who passes them clears them away.
    if (result == 0)
        result =
            ((int (*)(word, word, word, word, word, word, word, word, word, word, word, word, word,
                      word, word, word))small)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
                                               a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    if (wide != NULL && result == 0)
        *wide = position;
    if (result == 0 && call->stays && arrays != NULL)
        keep(handle_at((const void*)words[count - 1], caller), arrays);
    else
        free_all(arrays);
    return result;
}
