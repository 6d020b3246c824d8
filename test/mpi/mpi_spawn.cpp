// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_spawn host|cuda one|several|bare: each rank exchanges an array, in host memory or a GPU's,
// with what it spawns: one process by MPI_Comm_spawn, two by MPI_Comm_spawn_multiple, or one
// without arguments (host memory). Exits with 0, with 1 when data are wrong, with 77 where the MPI
// spawns none.
//
// A run spawns once: with Open MPI 4.1 a later spawn may wait for ever
// (docs/developers/defects.md).
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kCount = 100000;

bool exchange(MPI_Comm peer, int with, bool on_gpu, bool is_child)
{
    std::vector<char> sent(kCount, is_child ? 'c' : 'p'), expected(kCount, is_child ? 'p' : 'c');
    gpu::Bytes out(sent, on_gpu), in(std::vector<char>(kCount), on_gpu);
    MPI_Sendrecv(out.data(), kCount, MPI_CHAR, with, 0, in.data(), kCount, MPI_CHAR, with, 0, peer,
                 MPI_STATUS_IGNORE);
    return in.bytes() == expected;
}

int is_child_of(MPI_Comm parent, int argc, char** argv)
{
    const bool on_gpu = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    if (on_gpu) {
        gpu::use();
    }
    int ranks = 0, wrong = 0;
    MPI_Comm_remote_size(parent, &ranks);
    for (int i = 0; i < ranks; ++i) {
        wrong += exchange(parent, i, on_gpu, true) ? 0 : 1;
    }
    if (wrong == 0 && argc > 2 && std::strcmp(argv[2], "a b=c") != 0) {
        wrong = 1;
    }
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return wrong;
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        return is_child_of(parent, argc, argv);
    }
    std::string memory = argc > 1 ? argv[1] : "host", text = "a b=c";
    const std::string form = argc > 2 ? argv[2] : "one";
    const bool on_gpu = memory == "cuda";
    if (on_gpu) {
        gpu::use();
    }
    char* with_arguments[] = {memory.data(), text.data(), nullptr};
    char* with_one[] = {memory.data(), nullptr};
    char* commands[] = {argv[0], argv[0]};
    char** arguments[] = {with_arguments, with_one};
    const int one[] = {1, 1};
    const MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status;
    if (form == "several") {
        status = MPI_Comm_spawn_multiple(2, commands, arguments, one, infos, 0, MPI_COMM_WORLD,
                                         &children, MPI_ERRCODES_IGNORE);
    } else {
        status = MPI_Comm_spawn(argv[0], form == "bare" ? MPI_ARGV_NULL : with_arguments, 1,
                                MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    }
    if (status != MPI_SUCCESS) {
        return 77;
    }
    int spawned = 0, wrong = 0;
    MPI_Comm_remote_size(children, &spawned);
    wrong += spawned == (form == "several" ? 2 : 1) ? 0 : 1;
    for (int i = 0; i < spawned; ++i) {
        wrong += exchange(children, i, on_gpu, false) ? 0 : 1;
    }
    MPI_Comm_disconnect(&children);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
