// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_windows: puts and gets between GPU memory and windows in host memory, made in each of the
// ways that MPI has, the rank's own and the next one's, of few bytes and many, in one piece at the
// target and with gaps. A line "rank R wrong: CASE" for each that is not right, with "done" at the
// end.
#include <cstdio>
#include <string>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kMost = 100000; // integers in a window
int rank, ranks;

int exposed(int owner, int i)
{
    return 1000000 * (owner + 1) + i;
}

int sent(int from, int i)
{
    return -exposed(from, i);
}

struct Window {
    MPI_Win handle;
    int* memory;
    std::vector<MPI_Aint> starts{}; // displacements of the first integer at each rank
};

Window create()
{
    static std::vector<int> memory(kMost);
    Window made{MPI_WIN_NULL, memory.data(), std::vector<MPI_Aint>(ranks)};
    MPI_Win_create(made.memory, kMost * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &made.handle);
    return made;
}

Window allocate()
{
    Window made{MPI_WIN_NULL, nullptr, std::vector<MPI_Aint>(ranks)};
    MPI_Win_allocate(kMost * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &made.memory,
                     &made.handle);
    return made;
}

Window allocate_shared()
{
    Window made{MPI_WIN_NULL, nullptr, std::vector<MPI_Aint>(ranks)};
    MPI_Win_allocate_shared(kMost * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                            &made.memory, &made.handle);
    return made;
}

Window create_dynamic()
{
    static std::vector<int> memory(kMost);
    Window made{MPI_WIN_NULL, memory.data(), std::vector<MPI_Aint>(ranks)};
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &made.handle);
    MPI_Win_attach(made.handle, made.memory, kMost * sizeof(int));
    MPI_Aint start;
    MPI_Get_address(made.memory, &start);
    MPI_Allgather(&start, 1, MPI_AINT, made.starts.data(), 1, MPI_AINT, MPI_COMM_WORLD);
    return made;
}

struct Shape {
    const char* name;
    int count, stride; // integers at the target
};

class Transfers {
  public:
    explicit Transfers(const char* name)
        : name_(name), gpu_(static_cast<int*>(gpu::allocate(kMost * sizeof(int))))
    {
    }
    ~Transfers() { gpu::free(gpu_); }

    void run(const Window& window, const Shape& shape, bool own, bool put)
    {
        const int to = own ? rank : (rank + 1) % ranks,
                  from = own ? rank : (rank + ranks - 1) % ranks;
        for (int i = 0; i < kMost; ++i)
            window.memory[i] = exposed(rank, i);
        std::vector<int> values(shape.count);
        for (int i = 0; i < shape.count; ++i)
            values[i] = sent(rank, i);
        gpu::copy(gpu_, values.data(), values.size() * sizeof(int));
        MPI_Datatype type;
        MPI_Type_vector(shape.count, 1, shape.stride, MPI_INT, &type);
        MPI_Type_commit(&type);
        const int count = shape.stride == 1 ? shape.count : 1;
        const MPI_Datatype there = shape.stride == 1 ? MPI_INT : type;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, window.handle);
        if (put)
            MPI_Put(gpu_, shape.count, MPI_INT, to, window.starts[to], count, there, window.handle);
        else
            MPI_Get(gpu_, shape.count, MPI_INT, to, window.starts[to], count, there, window.handle);
        MPI_Win_unlock_all(window.handle);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Type_free(&type);
        int wrong = 0;
        MPI_Win_lock_all(0, window.handle);
        for (int i = 0; i < kMost; ++i) {
            const bool written = put && i % shape.stride == 0 && i / shape.stride < shape.count;
            wrong +=
                window.memory[i] != (written ? sent(from, i / shape.stride) : exposed(rank, i));
        }
        MPI_Win_unlock_all(window.handle);
        gpu::copy(values.data(), gpu_, values.size() * sizeof(int));
        for (int i = 0; i < shape.count; ++i)
            wrong += values[i] != (put ? sent(rank, i) : exposed(to, i * shape.stride));
        if (wrong != 0)
            std::printf("rank %d wrong: %s, %s, %s, %s: %d\n", rank, name_,
                        put ? "MPI_Put" : "MPI_Get", own ? "own" : "the next one's", shape.name,
                        wrong);
    }

  private:
    const char* name_;
    int* gpu_;
};

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu::use(rank);
    const struct {
        const char* name;
        Window (*make)();
    } kinds[] = {{"MPI_Win_create", create},
                 {"MPI_Win_allocate", allocate},
                 {"MPI_Win_allocate_shared", allocate_shared},
                 {"MPI_Win_create_dynamic", create_dynamic}};
    const Shape shapes[] = {{"few", 100, 1},
                            {"many", kMost, 1},
                            {"few with gaps", 100, 2},
                            {"many with gaps", kMost / 2, 2}};
    for (const auto& kind : kinds) {
        Window window = kind.make();
        Transfers transfers(kind.name);
        for (const Shape& shape : shapes) {
            for (const bool own : {false, true}) {
                for (const bool put : {false, true})
                    transfers.run(window, shape, own, put);
            }
        }
        if (window.starts[0] != 0)
            MPI_Win_detach(window.handle, window.memory);
        MPI_Win_free(&window.handle);
    }
    std::printf("rank %d done\n", rank);
    MPI_Finalize();
}
