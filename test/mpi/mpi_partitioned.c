// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_partitioned: partitioned messages of GPU memory from rank 0 to rank 1, three rounds of one
// request, of integers and of every other one: partitions are filled between MPI_Start and
// MPI_Pready, and those seen to have arrived are there before the request is complete. Nothing
// between the elements is touched. Exits with 0 when all are right; 77: MPI has no such calls.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#if MPI_VERSION < 4 && (!defined(OMPI_MAJOR_VERSION) || OMPI_MAJOR_VERSION < 5)
int main(void)
{
    return 77;
}
#else
enum { PARTITIONS = 4, COUNT = 300, LENGTH = 2 * PARTITIONS * COUNT };

static int (*store)(unsigned long long, const void*, unsigned long);
static int (*load)(void*, unsigned long long, unsigned long);

static int value(int round, int index)
{
    return round * 100000 + index + 1;
}

// Elements at every step-th place.
static int wrong_elements(unsigned long long memory, int first, int last, int step, int round)
{
    int found[LENGTH], wrong = 0;
    load(found, memory, sizeof(found));
    for (int i = first; i < last; ++i) {
        wrong += found[i] != (i % step == 0 ? value(round, i) : -1);
    }
    return wrong;
}

static void fill(unsigned long long memory, int partition, int step, int round)
{
    int values[2 * COUNT];
    const int length = step * COUNT, first = partition * length;
    for (int i = 0; i < length; ++i) {
        values[i] = value(round, first + i);
    }
    store(memory + sizeof(int) * first, values, sizeof(int) * length);
}

static int rounds(unsigned long long memory, MPI_Datatype type, int step, int rank)
{
    static int empty[LENGTH];
    int list[] = {3, 1}, length = step * COUNT;
    int wrong = 0;
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init((void*)memory, PARTITIONS, COUNT, type, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    } else {
        MPI_Precv_init((void*)memory, PARTITIONS, COUNT, type, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    }
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < LENGTH; ++i) {
            empty[i] = -1;
        }
        store(memory, empty, sizeof(empty));
        MPI_Start(&request);
        if (rank == 0) {
            for (int i = 0; i < PARTITIONS; ++i) {
                fill(memory, i, step, round);
            }
            if (round == 0) {
                for (int i = PARTITIONS; i-- > 0;) {
                    MPI_Pready(i, request);
                }
            } else {
                MPI_Pready_list(2, list, request);
                MPI_Pready_range(0, 0, request);
                MPI_Pready_range(2, 2, request);
            }
        } else if (round < 2) { // else by its completion alone
            for (int arrived = 0; !arrived;) {
                MPI_Parrived(request, 2, &arrived);
            }
            wrong += wrong_elements(memory, 2 * length, 3 * length, step, round);
            const int own = 5; // what has arrived is the application's
            store(memory + sizeof(int) * 2 * length, &own, sizeof(own));
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (rank == 1) {
            int kept = 0;
            load(&kept, memory + sizeof(int) * 2 * length, sizeof(kept));
            wrong += kept != (round < 2 ? 5 : value(round, 2 * length));
            wrong += wrong_elements(memory, 0, 2 * length, step, round) +
                     wrong_elements(memory, 3 * length, 4 * length, step, round);
        }
    }
    MPI_Request_free(&request);
    return wrong;
}

int main(void)
{
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(cuda, "cuInit");
    int (*retain)(void**, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*set)(void*) = dlsym(cuda, "cuCtxSetCurrent");
    int (*alloc)(unsigned long long*, unsigned long) = dlsym(cuda, "cuMemAlloc_v2");
    store = dlsym(cuda, "cuMemcpyHtoD_v2");
    load = dlsym(cuda, "cuMemcpyDtoH_v2");
    void* context;
    unsigned long long memory;
    int rank, wrong;
    MPI_Datatype every_other;
    if (init(0) || retain(&context, 0) || set(context) || alloc(&memory, sizeof(int) * LENGTH)) {
        return 2;
    }
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_other);
    MPI_Type_commit(&every_other);
    wrong = rounds(memory, MPI_INT, 1, rank);
    wrong += rounds(memory, every_other, 2, rank);
    MPI_Finalize();
    if (wrong) {
        printf("rank %d: FAILED: %d elements are wrong\n", rank, wrong);
    }
    return wrong != 0;
}
#endif
