// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_names linked|opened LIBRARY EXTENSION: reads names of MPI calls and prints those which the
// dynamic linker does not find as the MPI library has them: by dlsym, and, as mpi4py does, by weak
// references, in an EXTENSION that is opened (a copy of this, compiled with -DEXTENSION) and in a
// program that is linked with MPI. "opened": the program is not; EXTENSION brings the library.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// Of MPI 3.1, of MPI 4.0 and of MPI 4.1.
#define NAMES(NAME)                                                                                \
    NAME(MPI_Send)                                                                                 \
    NAME(PMPI_Send)                                                                                \
    NAME(MPI_Send_c)                                                                               \
    NAME(MPI_Isendrecv)                                                                            \
    NAME(PMPI_Psend_init)                                                                          \
    NAME(MPI_Comm_idup_with_info)                                                                  \
    NAME(MPI_Request_get_status_all)                                                               \
    NAME(MPI_Comm_attach_buffer)                                                                   \
    NAME(MPIX_Allreduce_init)

#define DECLARE(name) extern __attribute__((weak)) int name(void);
#define ROW(name) {#name, name},

struct reference {
    const char* name;
    int (*function)(void);
};

#if defined EXTENSION || defined LINKED
NAMES(DECLARE)
// Without it the linker would leave the library out.
extern int MPI_Get_version(int* version, int* subversion);
extern int (*needed)(int*, int*);
int (*needed)(int*, int*) = MPI_Get_version;
#endif

#ifdef EXTENSION
const struct reference* references(void);
const struct reference* references(void)
{
    static struct reference all[] = {NAMES(ROW){NULL, NULL}};
    return all;
}
#else

static int wrong = 0;

static void expect(int shown, const void* in_library, const char* name, const char* how)
{
    if (shown == (in_library != NULL)) {
        return;
    }
    printf("%s, %s: %s\n", name, how, shown ? "found" : "not found");
    wrong = 1;
}

static void compare(const struct reference* reference, void* library, const char* how)
{
    for (; reference->name; ++reference) {
        expect(reference->function != NULL, dlsym(library, reference->name), reference->name, how);
    }
}

static int is_the_layer(const void* function)
{
    Dl_info object;
    return dladdr(function, &object) && strstr(object.dli_fname, "/libgdr_mpi.so");
}

int main(int argc, char** argv)
{
    (void)argc;
    void* const extension = dlopen(argv[3], RTLD_NOW);
    if (!extension) {
        printf("%s\n", dlerror());
        return 1;
    }
    void* const library = dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD);
    const struct reference* (*references)(void) =
        (const struct reference* (*)(void))dlsym(extension, "references");
    compare(references(), library, "by the extension");
#ifdef LINKED
    const struct reference own[] = {NAMES(ROW){NULL, NULL}};
    compare(own, library, "by the program");
#endif
    char name[80];
    while (fgets(name, sizeof(name), stdin)) {
        name[strcspn(name, "\n")] = 0;
        dlerror();
        const void* const found = dlsym(RTLD_DEFAULT, name);
        const char* const error = dlerror();
        expect(found != NULL, dlsym(library, name), name, "by dlsym");
        if (found ? !is_the_layer(found) : !error) {
            printf("%s: %s\n", name, found ? "not the layer's" : "no error is told");
            wrong = 1;
        }
    }
    return wrong;
}
#endif
