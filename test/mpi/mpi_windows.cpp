// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_windows INTEGERS KIND...: puts and gets between GPU memory and windows of so many in host
// memory that MPI_Win_KIND makes, the rank's own and the next one's, of few bytes and many, in one
// piece at the target and with gaps, and with requests, but in dynamic windows. A line "rank R
// wrong: CASE" for each that is not right, with "done" at the end. KIND "on_gpu": windows in GPU
// memory that are made, of each kind twice, and nothing else.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

int most; // integers in a window
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
    static std::vector<int> memory(most);
    Window made{MPI_WIN_NULL, memory.data(), std::vector<MPI_Aint>(ranks)};
    MPI_Win_create(made.memory, most * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                   &made.handle);
    return made;
}

Window allocate()
{
    Window made{MPI_WIN_NULL, nullptr, std::vector<MPI_Aint>(ranks)};
    MPI_Win_allocate(most * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &made.memory,
                     &made.handle);
    return made;
}

Window allocate_shared()
{
    Window made{MPI_WIN_NULL, nullptr, std::vector<MPI_Aint>(ranks)};
    MPI_Win_allocate_shared(most * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                            &made.memory, &made.handle);
    return made;
}

Window create_dynamic()
{
    static std::vector<int> memory(most);
    Window made{MPI_WIN_NULL, memory.data(), std::vector<MPI_Aint>(ranks)};
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &made.handle);
    MPI_Win_attach(made.handle, made.memory, most * sizeof(int));
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
        : name_(name), gpu_(static_cast<int*>(gpu::allocate(most * sizeof(int))))
    {
    }
    ~Transfers() { gpu::free(gpu_); }

    void run(const Window& window, const Shape& shape, bool own, bool put, bool request)
    {
        const int to = own ? rank : (rank + 1) % ranks,
                  from = own ? rank : (rank + ranks - 1) % ranks;
        for (int i = 0; i < most; ++i) {
            window.memory[i] = exposed(rank, i);
        }
        std::vector<int> values(shape.count);
        for (int i = 0; i < shape.count; ++i) {
            values[i] = sent(rank, i);
        }
        gpu::copy(gpu_, values.data(), values.size() * sizeof(int));
        MPI_Datatype type;
        MPI_Type_vector(shape.count, 1, shape.stride, MPI_INT, &type);
        MPI_Type_commit(&type);
        const int count = shape.stride == 1 ? shape.count : 1;
        const MPI_Datatype there = shape.stride == 1 ? MPI_INT : type;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, window.handle);
        const auto move = [&](auto call, auto*... made) {
            call(gpu_, shape.count, MPI_INT, to, window.starts[to], count, there, window.handle,
                 made...);
        };
        if (request) {
            MPI_Request made;
            put ? move(MPI_Rput, &made) : move(MPI_Rget, &made);
            MPI_Wait(&made, MPI_STATUS_IGNORE);
        } else {
            put ? move(MPI_Put) : move(MPI_Get);
        }
        MPI_Win_unlock_all(window.handle);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Type_free(&type);
        int wrong = 0;
        MPI_Win_lock_all(0, window.handle);
        for (int i = 0; i < most; ++i) {
            const bool written = put && i % shape.stride == 0 && i / shape.stride < shape.count;
            wrong +=
                window.memory[i] != (written ? sent(from, i / shape.stride) : exposed(rank, i));
        }
        MPI_Win_unlock_all(window.handle);
        gpu::copy(values.data(), gpu_, values.size() * sizeof(int));
        for (int i = 0; i < shape.count; ++i) {
            wrong += values[i] != (put ? sent(rank, i) : exposed(to, i * shape.stride));
        }
        if (wrong != 0) {
            std::printf("rank %d wrong: MPI_Win_%s, MPI_%s%s, %s, %s: %d\n", rank, name_,
                        request ? "R" : "", put ? "put" : "get", own ? "own" : "the next one's",
                        shape.name, wrong);
        }
    }

  private:
    const char* name_;
    int* gpu_;
};

void make_on_gpu()
{
    const size_t bytes = most * sizeof(int);
    void* const memory = gpu::allocate(bytes);
    for (int round = 0; round < 2; ++round) {
        MPI_Win window;
        MPI_Win_create(memory, static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window);
        MPI_Win_free(&window);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_attach(window, memory, static_cast<MPI_Aint>(bytes));
        MPI_Win_detach(window, memory);
        MPI_Win_free(&window);
    }
    gpu::free(memory);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu::use(rank);
    most = std::atoi(argv[1]);
    const struct {
        const char* name;
        Window (*make)();
    } kinds[] = {{"create", create},
                 {"allocate", allocate},
                 {"allocate_shared", allocate_shared},
                 {"create_dynamic", create_dynamic}};
    const Shape shapes[] = {{"few", 100, 1},
                            {"many", most, 1},
                            {"few with gaps", 100, 2},
                            {"many with gaps", most / 2, 2}};
    for (int i = 2; i < argc; ++i) {
        if (std::string_view(argv[i]) == "on_gpu") {
            make_on_gpu();
            continue;
        }
        const auto& kind = *std::ranges::find(kinds, std::string_view(argv[i]),
                                              [](const auto& each) { return each.name; });
        Window window = kind.make();
        Transfers transfers(kind.name);
        for (const Shape& shape : shapes) {
            for (const bool own : {false, true}) {
                for (const bool put : {false, true}) {
                    transfers.run(window, shape, own, put, false);
                    // Open MPI 4.1.4 fails in dynamic ones, in host memory, too.
                    if (window.starts[0] == 0) {
                        transfers.run(window, shape, own, put, true);
                    }
                }
            }
        }
        if (window.starts[0] != 0) {
            MPI_Win_detach(window.handle, window.memory);
        }
        MPI_Win_free(&window.handle);
    }
    std::printf("rank %d done\n", rank);
    MPI_Finalize();
}
