// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_bench WAYS SIZES [BLOCKS]: run by contrib/bench-mpi. Prints, from rank 0, "CALL SIZE WAY US":
// the median of some calls, of the rank that took longest. The ways of a row take turns, some calls
// each.
//   host    buffers in host memory          device  in GPU memory
//   hand    cuMemcpy to host memory, the call, cuMemcpy back, as programs do without us
// SIZE is that of the longest buffer, in bytes. With BLOCKS: MPI_Sendrecv between two ranks of a
// vector of that many blocks of 8 bytes, every second, instead; its ways:
//   device  in GPU memory, with the vector type
//   rows    cuMemcpy2D to host memory without gaps, the call, cuMemcpy2D back
//   blocks  as rows, with a copy for each block; once
// Exits with 77 without a CUDA driver, with 1 where a result is wrong.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

int rank, ranks;

// Pinned host memory, as who copies by hand has, or a GPU's.
class Buffer {
  public:
    Buffer(size_t bytes, bool on_gpu) : on_gpu_(on_gpu)
    {
        void* data = nullptr;
        if (on_gpu) {
            data = gpu::allocate(bytes);
        } else {
            gpu::check(gpu::driver<CUresult (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(
                &data, bytes, 0));
        }
        data_ = static_cast<char*>(data);
        const std::vector<char> zeros(bytes, 0);
        gpu::copy(data_, zeros.data(), bytes);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer()
    {
        if (on_gpu_) {
            gpu::free(data_);
        } else {
            gpu::driver<CUresult (*)(void*)>("cuMemFreeHost")(data_);
        }
    }
    char* data() const { return data_; }

  private:
    char* data_;
    const bool on_gpu_;
};

struct Way {
    std::string name;
    std::function<void()> run;
    bool once = false; // it takes seconds
};

// About as many series of calls as take a second on an emulated GPU.
int series_for(size_t bytes)
{
    return static_cast<int>(std::clamp<size_t>((size_t{8} << 20) / (bytes + 1), 1, 20));
}

// The ways take turns by series, not by calls: a program copies in one way, and a GPU that goes
// from one stream's copy to another's takes longer.
constexpr int kSeries = 5, kNotTimed = 2; // calls of one, and before them

void measure(const char* call, size_t bytes, const std::vector<Way>& ways)
{
    std::vector<std::vector<double>> times(ways.size());
    const int all = series_for(bytes);
    for (int series = 0; series < all; ++series) {
        for (size_t way = 0; way < ways.size(); ++way) {
            const bool once = ways[way].once;
            if (once && series > 0) {
                continue;
            }
            for (int i = once ? kSeries - 1 : -kNotTimed; i < kSeries; ++i) {
                MPI_Barrier(MPI_COMM_WORLD);
                const double begin = MPI_Wtime();
                ways[way].run();
                if (i >= 0) {
                    times[way].push_back((MPI_Wtime() - begin) * 1e6);
                }
            }
        }
    }
    for (size_t way = 0; way < ways.size(); ++way) {
        std::vector<double>& of_way = times[way];
        const auto middle = of_way.begin() + static_cast<ptrdiff_t>(of_way.size() / 2);
        std::nth_element(of_way.begin(), middle, of_way.end());
        double median = *middle, longest = 0;
        MPI_Reduce(&median, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            std::printf("%s %zu %s %.3f\n", call, bytes, ways[way].name.c_str(), longest);
        }
    }
    std::fflush(stdout);
}

using Call = std::function<void(void* out, void* in)>;

struct Collective {
    const char* name;
    size_t out, in; // bytes that are read, and written
    Call run;
};

void collectives(const std::vector<std::string>& ways, size_t bytes)
{
    const auto count = static_cast<int>(bytes / sizeof(double));
    const auto block = static_cast<int>(std::max<size_t>(1, bytes / static_cast<size_t>(ranks)));
    const auto all = static_cast<size_t>(block) * static_cast<size_t>(ranks);
    const Collective calls[] = {
        {"Allreduce", bytes, bytes,
         [&](void* out, void* in) {
             MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
         }},
        {"Bcast", rank == 0 ? bytes : 0, rank == 0 ? 0 : bytes,
         [&](void* out, void* in) {
             MPI_Bcast(rank == 0 ? out : in, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
         }},
        {"Alltoall", all, all,
         [&](void* out, void* in) {
             MPI_Alltoall(out, block, MPI_CHAR, in, block, MPI_CHAR, MPI_COMM_WORLD);
         }},
        {"Allgather", static_cast<size_t>(block), all, [&](void* out, void* in) {
             MPI_Allgather(out, block, MPI_CHAR, in, block, MPI_CHAR, MPI_COMM_WORLD);
         }}};
    const size_t room = std::max(bytes, all);
    // Each way has its own, or one would find in the cache what another has left there.
    const Buffer host_out(room, false), host_in(room, false), out(room, true), in(room, true);
    const Buffer hand_out(room, false), hand_in(room, false), hand_from(room, true),
        hand_to(room, true);
    for (const Collective& call : calls) {
        const auto by_hand = [&] {
            if (call.out > 0) {
                gpu::copy(hand_out.data(), hand_from.data(), call.out);
            }
            call.run(hand_out.data(), hand_in.data());
            if (call.in > 0) {
                gpu::copy(hand_to.data(), hand_in.data(), call.in);
            }
        };
        std::vector<Way> chosen;
        for (const std::string& way : ways) {
            if (way == "host") {
                chosen.push_back({way, [&] { call.run(host_out.data(), host_in.data()); }});
            } else if (way == "device") {
                chosen.push_back({way, [&] { call.run(out.data(), in.data()); }});
            } else {
                chosen.push_back({way, by_hand});
            }
        }
        measure(call.name, bytes, chosen);
    }
}

void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t rows)
{
    CUDA_MEMCPY2D all = {};
    all.srcMemoryType = all.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    all.srcDevice = reinterpret_cast<CUdeviceptr>(from);
    all.dstDevice = reinterpret_cast<CUdeviceptr>(to);
    all.srcPitch = from_pitch;
    all.dstPitch = to_pitch;
    all.WidthInBytes = sizeof(double);
    all.Height = rows;
    gpu::check(gpu::driver<CUresult (*)(const CUDA_MEMCPY2D*)>("cuMemcpy2D_v2")(&all));
}

void copy_blocks(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t blocks)
{
    for (size_t i = 0; i < blocks; ++i) {
        gpu::copy(to + i * to_pitch, from + i * from_pitch, sizeof(double));
    }
}

void vector(const std::vector<std::string>& ways, int blocks)
{
    const size_t pitch = 2 * sizeof(double), rows = static_cast<size_t>(blocks);
    MPI_Datatype type;
    MPI_Type_vector(blocks, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    const Buffer out(rows * pitch, true), in(rows * pitch, true);
    const Buffer host_out(rows * sizeof(double), false), host_in(rows * sizeof(double), false);
    const int peer = rank < 2 ? 1 - rank : MPI_PROC_NULL;
    const auto exchange = [&](void* from, void* to, int count, MPI_Datatype of) {
        MPI_Sendrecv(from, count, of, peer, 0, to, count, of, peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    };
    const auto packed = [&](auto copy_all) {
        copy_all(host_out.data(), sizeof(double), out.data(), pitch, rows);
        exchange(host_out.data(), host_in.data(), blocks, MPI_DOUBLE);
        copy_all(in.data(), pitch, host_in.data(), sizeof(double), rows);
    };
    std::vector<Way> chosen;
    for (const std::string& way : ways) {
        if (way == "device") {
            chosen.push_back({way, [&] { exchange(out.data(), in.data(), 1, type); }});
        } else if (way == "rows") {
            chosen.push_back({way, [&] { packed(copy_rows); }});
        } else {
            chosen.push_back({way, [&] { packed(copy_blocks); }, true});
        }
    }
    measure("vector", rows * sizeof(double), chosen);
    MPI_Type_free(&type);
}

// That what is measured is done.
bool right()
{
    constexpr int kCount = 100000;
    const std::vector<double> values(kCount, rank + 1.0);
    std::vector<double> sums(kCount);
    const Buffer out(kCount * sizeof(double), true), in(kCount * sizeof(double), true);
    gpu::copy(out.data(), values.data(), kCount * sizeof(double));
    MPI_Allreduce(out.data(), in.data(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    gpu::copy(sums.data(), in.data(), kCount * sizeof(double));
    const double expected = ranks * (ranks + 1) / 2.0;
    return std::ranges::all_of(sums, [&](double sum) { return sum == expected; });
}

std::vector<std::string> words_of(const char* list)
{
    std::vector<std::string> words;
    std::istringstream stream(list);
    for (std::string word; std::getline(stream, word, ',');) {
        words.push_back(word);
    }
    return words;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 3) {
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gpu::use(rank);
    const bool correct = right();
    if (argc > 3) {
        vector(words_of(argv[1]), std::atoi(argv[3]));
    } else {
        for (const std::string& size : words_of(argv[2])) {
            collectives(words_of(argv[1]), std::stoull(size));
        }
    }
    MPI_Finalize();
    return correct ? 0 : 1;
}
