// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// MPI_Comm_spawn. MPI libraries give spawned processes the environment of mpirun, which lacks what
// "mpirun ucx-gdr run ./program" sets: they would use other transports than their parents. So env
// starts them with these variables, which ucx-gdr run names.
#include "mpi/contract/service.h"
#include "preload/objects.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef gdr_mpi_word word; // handles, and values that only MPI looks at

// A command and its arguments (NULL: none) as arguments of env. Ends with NULL. The caller frees it
// and its first "variables" elements.
struct wrapped {
    char** argv;
    size_t variables;
};

static void unwrap(struct wrapped wrapped)
{
    for (size_t i = 0; i < wrapped.variables; ++i) {
        free(wrapped.argv[i]);
    }
    free(wrapped.argv);
}

// No argv in the result: the command stays as it is.
static struct wrapped wrap(const char* command, char* const* argv)
{
    const struct wrapped none = {NULL, 0};
    const char* const names = getenv("GDR_SPAWN_VARIABLES");
    if (!names || !*names || strchr(command, '=')) {
        return none;
    }
    size_t arguments = 0, most = 1;
    while (argv && argv[arguments]) {
        ++arguments;
    }
    for (const char* c = names; *c; ++c) {
        most += *c == ' ';
    }
    char* const list = strdup(names);
    struct wrapped wrapped = {calloc(most + arguments + 2, sizeof(char*)), 0};
    char* rest = NULL;
    int failed = !list || !wrapped.argv;
    for (char* name = failed ? NULL : strtok_r(list, " ", &rest); name && !failed;
         name = strtok_r(NULL, " ", &rest)) {
        const char* const value = getenv(name);
        if (!value) {
            continue;
        }
        failed = asprintf(&wrapped.argv[wrapped.variables], "%s=%s", name, value) < 0;
        wrapped.variables += !failed;
    }
    free(list);
    if (failed) {
        unwrap(wrapped);
        return none;
    }
    wrapped.argv[wrapped.variables] = (char*)command;
    if (arguments != 0) {
        memcpy(wrapped.argv + wrapped.variables + 1, argv, arguments * sizeof(char*));
    }
    return wrapped;
}

// Only the root has the commands and their arguments.
static int is_root(const void* by, int root, word comm)
{
    int rank = -1;
    int (*comm_rank)(word, int*) = (int (*)(word, int*))gdr_function_for(by, "PMPI_Comm_rank");
    return comm_rank && comm_rank(comm, &rank) == 0 && rank == root;
}

// The next function of that name. is_tool: it belongs to a tool, which calls PMPI_Comm_spawn.
static gdr_mpi_function* next(const void* by, const char* name, const char* own, int* is_tool)
{
    gdr_mpi_function* const found = (gdr_mpi_function*)gdr_function_for(by, name);
    const void* const in_library = gdr_function_for(by, own);
    *is_tool = gdr_object_of((const void*)found) != gdr_object_of(in_library);
    return found;
}

typedef int spawn_one(const char*, char**, int, word, int, word, word, word);
typedef int spawn_several(int, char**, char***, const int*, const word*, int, word, word, word);

static int spawn(const void* by, const char* name, const char* command, char** argv, int processes,
                 word info, int root, word comm, word intercomm, word errors)
{
    int is_tool = 0;
    spawn_one* const to = (spawn_one*)next(by, name, "PMPI_Comm_spawn", &is_tool);
    struct wrapped wrapped = {NULL, 0};
    if (!is_tool && is_root(by, root, comm)) {
        wrapped = wrap(command, argv);
    }
    const int result = wrapped.argv
                           ? to("env", wrapped.argv, processes, info, root, comm, intercomm, errors)
                           : to(command, argv, processes, info, root, comm, intercomm, errors);
    unwrap(wrapped);
    return result;
}

static int spawn_multiple(const void* by, const char* name, int count, char** commands,
                          char*** argvs, const int* processes, const word* infos, int root,
                          word comm, word intercomm, word errors)
{
    int is_tool = 0;
    spawn_several* const to = (spawn_several*)next(by, name, "PMPI_Comm_spawn_multiple", &is_tool);
    if (is_tool || count <= 0 || !is_root(by, root, comm)) {
        return to(count, commands, argvs, processes, infos, root, comm, intercomm, errors);
    }
    struct wrapped* const wrapped = calloc((size_t)count, sizeof(*wrapped));
    char** const own_commands = calloc((size_t)count, sizeof(*own_commands));
    char*** const own_argvs = calloc((size_t)count, sizeof(*own_argvs));
    int all = wrapped && own_commands && own_argvs;
    for (int i = 0; i < count && all; ++i) {
        wrapped[i] = wrap(commands[i], argvs ? argvs[i] : NULL);
        own_commands[i] = (char*)"env";
        own_argvs[i] = wrapped[i].argv;
        all = wrapped[i].argv != NULL;
    }
    const int result = to(count, all ? own_commands : commands, all ? own_argvs : argvs, processes,
                          infos, root, comm, intercomm, errors);
    for (int i = 0; i < count && wrapped; ++i) {
        unwrap(wrapped[i]);
    }
    free(wrapped);
    free(own_commands);
    free(own_argvs);
    return result;
}

EXPORT spawn_one MPI_Comm_spawn, PMPI_Comm_spawn;
EXPORT spawn_several MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple;

int MPI_Comm_spawn(const char* command, char** argv, int processes, word info, int root, word comm,
                   word intercomm, word errors)
{
    return spawn(__builtin_return_address(0), "MPI_Comm_spawn", command, argv, processes, info,
                 root, comm, intercomm, errors);
}

int PMPI_Comm_spawn(const char* command, char** argv, int processes, word info, int root, word comm,
                    word intercomm, word errors)
{
    return spawn(__builtin_return_address(0), "PMPI_Comm_spawn", command, argv, processes, info,
                 root, comm, intercomm, errors);
}

int MPI_Comm_spawn_multiple(int count, char** commands, char*** argvs, const int* processes,
                            const word* infos, int root, word comm, word intercomm, word errors)
{
    return spawn_multiple(__builtin_return_address(0), "MPI_Comm_spawn_multiple", count, commands,
                          argvs, processes, infos, root, comm, intercomm, errors);
}

int PMPI_Comm_spawn_multiple(int count, char** commands, char*** argvs, const int* processes,
                             const word* infos, int root, word comm, word intercomm, word errors)
{
    return spawn_multiple(__builtin_return_address(0), "PMPI_Comm_spawn_multiple", count, commands,
                          argvs, processes, infos, root, comm, intercomm, errors);
}
