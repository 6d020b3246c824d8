// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A mixture of experts: tokens of 7 KiB go to the 8 of 64 experts that each has chosen, on all
// ranks, and what the experts make of them comes back and is summed up. Once by kernels, which put
// token after token as they find them and wait for signals; and once as a program does that has no
// such kernels: counts, MPI_Alltoallv, the experts, MPI_Alltoallv. Every number of both results is
// checked.
//
//   nvcc -O2 -std=c++17 -ccbin mpicxx -cudart shared experts.cu -o experts -lucx-gdr -lucp -lucs
//   mpirun -n 2 ucx-gdr run ./experts [TOKENS OF A RANK] [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "peers.cuh"

namespace {

constexpr int kExperts = 64, kChosen = 8;
constexpr int kNumbers = 1792; // of a token: 7 KiB
constexpr int kThreads = 256;
constexpr int kMostRanks = 16;
constexpr unsigned kChannels = 4;

struct Token {
    uint32_t number[kNumbers];
};

// What goes to an expert: a token, and where the result belongs.
struct Parcel {
    uint32_t token, choice;
    uint32_t unused[2]; // copies are of 16 bytes
    Token content;
};

// ---- what the model is: integers, so that every sum is exact

__host__ __device__ uint32_t number_of(int rank, int token, int i)
{
    return (rank * 1000003u + token * 7919u + i) * 2654435761u;
}

// Different ones for each choice of a token.
__host__ __device__ int expert_of(int rank, int token, int choice)
{
    const uint32_t hash = (rank * 131u + token + 17u) * 2654435761u;
    return static_cast<int>(((hash >> 8) + choice * (2 * (hash >> 20) + 1)) % kExperts);
}
__host__ __device__ uint32_t weight_of(int choice)
{
    return choice + 1;
}
__host__ __device__ uint32_t result_of(int expert, uint32_t number)
{
    return number * (2 * expert + 1) + expert;
}

// ---- memory of this rank, and how it is divided

struct Sizes {
    int rank, ranks, tokens;

    __host__ __device__ int experts_here() const { return kExperts / ranks; }
    // Parcels from a rank to one of the experts here: a token goes to an expert once at most.
    __host__ __device__ size_t inbox(int expert, int from) const
    {
        return (static_cast<size_t>(expert) * ranks + from) * tokens;
    }
    __host__ __device__ size_t outbox(int expert) const
    {
        return static_cast<size_t>(expert) * tokens;
    }
    __host__ __device__ size_t answer(uint32_t token, uint32_t choice) const
    {
        return static_cast<size_t>(token) * kChosen + choice;
    }
};

struct Memory {
    Token* tokens;                // of this rank
    Parcel* outbox;               // to each expert
    Parcel* inbox;                // to each expert here, from each rank
    unsigned long long* arrived;  // for each expert here and rank: round and count
    Token* results;               // of the inbox, on their way back
    Token* answers;               // for each token and choice
    unsigned long long* answered; // for each expert: round
    Token* sums;
};

// The numbers by which kernels know memories: ours, and those of each rank.
struct Names {
    unsigned outbox, results;
    struct {
        unsigned inbox, arrived, answers, answered;
    } of[kMostRanks];
};

// A signal's value grows from round to round.
__host__ __device__ unsigned long long signal(int round, int count)
{
    return static_cast<unsigned long long>(round) << 16 | count;
}

// All threads of a block copy.
template <class Value>
__device__ void copy(Value* to, const Value* from)
{
    static_assert(sizeof(Value) % sizeof(uint4) == 0, "whole pieces");
    for (unsigned i = threadIdx.x; i < sizeof(Value) / sizeof(uint4); i += blockDim.x) {
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
}

// After what the block has written to this GPU's memory.
__device__ void set(unsigned long long* word, unsigned long long value)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        *reinterpret_cast<volatile unsigned long long*>(word) = value;
    }
}

__device__ void make_result(Token* result, const Token& content, int expert)
{
    for (unsigned i = threadIdx.x; i < kNumbers; i += blockDim.x) {
        result->number[i] = result_of(expert, content.number[i]);
    }
}

// ---- by kernels

// A block for each expert packs the tokens that have chosen it, puts each as soon as it is packed,
// and then tells how many there were.
__global__ void dispatch(ugdr_dev_t gdr, Sizes sizes, Memory memory, Names names, int round)
{
    const int expert = static_cast<int>(blockIdx.x), to = expert / sizes.experts_here(),
              there = expert % sizes.experts_here();
    const auto& peer = names.of[to];
    int count = 0;
    for (int token = 0; token < sizes.tokens; ++token) {
        for (int choice = 0; choice < kChosen; ++choice) {
            if (expert_of(sizes.rank, token, choice) != expert) {
                continue;
            }
            const size_t out = sizes.outbox(expert) + count,
                         in = sizes.inbox(there, sizes.rank) + count;
            Parcel* parcel = to == sizes.rank ? memory.inbox + in : memory.outbox + out;
            if (threadIdx.x == 0) {
                parcel->token = token;
                parcel->choice = choice;
            }
            copy(&parcel->content, memory.tokens + token);
            if (to != sizes.rank) {
                ugdr_dev_put<UGDR_LEVEL_BLOCK>(gdr, expert, names.outbox, out * sizeof(Parcel),
                                               peer.inbox, in * sizeof(Parcel), sizeof(Parcel));
            }
            ++count;
        }
    }
    const size_t word = static_cast<size_t>(there) * sizes.ranks + sizes.rank;
    if (to == sizes.rank) {
        set(memory.arrived + word, signal(round, count));
    } else { // in its channel it comes after the parcels
        ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(gdr, expert, signal(round, count), 8, peer.arrived,
                                             word * 8);
    }
}

// A block for each expert here and rank waits for that rank's tokens, and puts the results to where
// they belong.
__global__ void work(ugdr_dev_t gdr, Sizes sizes, Memory memory, Names names, int round,
                     int* failed)
{
    const int here = static_cast<int>(blockIdx.x) / sizes.ranks,
              from = static_cast<int>(blockIdx.x) % sizes.ranks,
              expert = sizes.rank * sizes.experts_here() + here;
    const unsigned long long* arrived = memory.arrived + blockIdx.x;
    if (ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(gdr, arrived, signal(round, 0)) != 0) {
        *failed = 1;
        return;
    }
    const int count =
        static_cast<int>(*reinterpret_cast<const volatile unsigned long long*>(arrived) & 0xffff);
    const auto& peer = names.of[from];
    for (int i = 0; i < count; ++i) {
        const size_t at = sizes.inbox(here, from) + i;
        const Parcel& parcel = memory.inbox[at];
        const size_t answer = sizes.answer(parcel.token, parcel.choice);
        make_result(from == sizes.rank ? memory.answers + answer : memory.results + at,
                    parcel.content, expert);
        if (from != sizes.rank) {
            ugdr_dev_put<UGDR_LEVEL_BLOCK>(gdr, expert, names.results, at * sizeof(Token),
                                           peer.answers, answer * sizeof(Token), sizeof(Token));
        }
    }
    if (from == sizes.rank) {
        set(memory.answered + expert, signal(round, 0));
    } else {
        ugdr_dev_put_value<UGDR_LEVEL_BLOCK>(gdr, expert, signal(round, 0), 8, peer.answered,
                                             static_cast<size_t>(expert) * 8);
    }
}

__device__ void sum_up(const Sizes& sizes, const Memory& memory, int token)
{
    for (unsigned i = threadIdx.x; i < kNumbers; i += blockDim.x) {
        uint32_t sum = 0;
        for (int choice = 0; choice < kChosen; ++choice) {
            sum += weight_of(choice) * memory.answers[sizes.answer(token, choice)].number[i];
        }
        memory.sums[token].number[i] = sum;
    }
}

// A block for each token waits for the experts that it has chosen.
__global__ void combine(ugdr_dev_t gdr, Sizes sizes, Memory memory, int round, int* failed)
{
    const int token = static_cast<int>(blockIdx.x);
    for (int choice = 0; choice < kChosen; ++choice) {
        const int expert = expert_of(sizes.rank, token, choice);
        if (ugdr_dev_signal_wait<UGDR_LEVEL_BLOCK>(gdr, memory.answered + expert,
                                                   signal(round, 0)) != 0) {
            *failed = 1;
            return;
        }
    }
    sum_up(sizes, memory, token);
}

// The peers' memories and the GPU, for the kernels above.
class Kernels {
  public:
    Kernels(const Sizes& sizes, const Memory& memory)
        : sizes_(sizes), memory_(memory), peers_(others(sizes), kChannels)
    {
        ugdr_mem_h outbox, results, inbox, arrived, answers, answered;
        const size_t tokens = static_cast<size_t>(sizes.tokens);
        outbox = peers_.map(memory.outbox, kExperts * tokens);
        results = peers_.map(memory.results, kExperts * tokens);
        inbox = peers_.map(memory.inbox, kExperts * tokens);
        arrived = peers_.map(memory.arrived, kExperts);
        answers = peers_.map(memory.answers, kChosen * tokens);
        answered = peers_.map(memory.answered, kExperts);
        names_.outbox = ugdr_mem_id(outbox);
        names_.results = ugdr_mem_id(results);
        for (int rank : others(sizes)) {
            names_.of[rank] = {peers_.import(rank, inbox), peers_.import(rank, arrived),
                               peers_.import(rank, answers), peers_.import(rank, answered)};
        }
        gdr_ = peers_.open_device();
        failed_ = on_gpu<int>(1);
    }

    // Enqueued as a whole; the CPU waits at the end.
    void run(int round, cudaStream_t stream)
    {
        dispatch<<<kExperts, kThreads, 0, stream>>>(gdr_, sizes_, memory_, names_, round);
        work<<<kExperts, kThreads, 0, stream>>>(gdr_, sizes_, memory_, names_, round, failed_);
        combine<<<sizes_.tokens, kThreads, 0, stream>>>(gdr_, sizes_, memory_, round, failed_);
        CUDA(cudaGetLastError());
        CUDA(cudaStreamSynchronize(stream));
        int failed;
        CUDA(cudaMemcpy(&failed, failed_, sizeof(failed), cudaMemcpyDeviceToHost));
        if (failed != 0) {
            fail("a kernel", "a signal will not come: see the line of ugdr");
        }
    }

  private:
    static std::vector<int> others(const Sizes& sizes)
    {
        std::vector<int> ranks;
        for (int rank = 0; rank < sizes.ranks; ++rank) {
            if (rank != sizes.rank) {
                ranks.push_back(rank);
            }
        }
        return ranks;
    }

    const Sizes sizes_;
    const Memory memory_;
    Peers peers_;
    Names names_ = {};
    ugdr_dev_t gdr_ = {};
    int* failed_ = nullptr;
};

// ---- by MPI

// A block for each choice of a token: position tells where its parcel goes.
__global__ void pack(Sizes sizes, Memory memory, const int* position)
{
    const int token = static_cast<int>(blockIdx.x) / kChosen,
              choice = static_cast<int>(blockIdx.x) % kChosen;
    Parcel* parcel = memory.outbox + position[blockIdx.x];
    if (threadIdx.x == 0) {
        parcel->token = token;
        parcel->choice = choice;
        parcel->unused[0] = expert_of(sizes.rank, token, choice);
    }
    copy(&parcel->content, memory.tokens + token);
}

// A block for each parcel, of which the result takes the token's place.
__global__ void work_on(Parcel* parcels)
{
    Parcel& parcel = parcels[blockIdx.x];
    make_result(&parcel.content, parcel.content, static_cast<int>(parcel.unused[0]));
}

__global__ void unpack(Sizes sizes, Memory memory, const Parcel* parcels)
{
    const Parcel& parcel = parcels[blockIdx.x];
    copy(memory.answers + sizes.answer(parcel.token, parcel.choice), &parcel.content);
}

__global__ void sum_all(Sizes sizes, Memory memory)
{
    sum_up(sizes, memory, static_cast<int>(blockIdx.x));
}

class Plain {
  public:
    Plain(const Sizes& sizes, const Memory& memory)
        : sizes_(sizes), memory_(memory), choices_(sizes.tokens * kChosen),
          position_(on_gpu<int>(choices_))
    {
        MPI_Type_contiguous(sizeof(Parcel), MPI_BYTE, &parcel_);
        MPI_Type_commit(&parcel_);
    }

    void run(int, cudaStream_t stream)
    {
        const int ranks = sizes_.ranks;
        std::vector<int> send(ranks), receive(ranks), send_at(ranks), receive_at(ranks);
        for (int i = 0; i < choices_; ++i) {
            ++send[rank_of(i)];
        }
        MPI_Alltoall(send.data(), 1, MPI_INT, receive.data(), 1, MPI_INT, MPI_COMM_WORLD);
        for (int rank = 1; rank < ranks; ++rank) {
            send_at[rank] = send_at[rank - 1] + send[rank - 1];
            receive_at[rank] = receive_at[rank - 1] + receive[rank - 1];
        }
        std::vector<int> next = send_at, position(choices_);
        for (int i = 0; i < choices_; ++i) {
            position[i] = next[rank_of(i)]++;
        }
        const int received = receive_at.back() + receive.back();
        CUDA(cudaMemcpyAsync(position_, position.data(), choices_ * sizeof(int),
                             cudaMemcpyHostToDevice, stream));
        pack<<<choices_, kThreads, 0, stream>>>(sizes_, memory_, position_);
        CUDA(cudaStreamSynchronize(stream));
        MPI_Alltoallv(memory_.outbox, send.data(), send_at.data(), parcel_, memory_.inbox,
                      receive.data(), receive_at.data(), parcel_, MPI_COMM_WORLD);
        if (received > 0) {
            work_on<<<received, kThreads, 0, stream>>>(memory_.inbox);
        }
        CUDA(cudaStreamSynchronize(stream));
        MPI_Alltoallv(memory_.inbox, receive.data(), receive_at.data(), parcel_, memory_.outbox,
                      send.data(), send_at.data(), parcel_, MPI_COMM_WORLD);
        unpack<<<choices_, kThreads, 0, stream>>>(sizes_, memory_, memory_.outbox);
        sum_all<<<sizes_.tokens, kThreads, 0, stream>>>(sizes_, memory_);
        CUDA(cudaGetLastError());
        CUDA(cudaStreamSynchronize(stream));
    }

  private:
    int rank_of(int i) const
    {
        return expert_of(sizes_.rank, i / kChosen, i % kChosen) / sizes_.experts_here();
    }

    const Sizes sizes_;
    const Memory memory_;
    const int choices_;
    int* const position_;
    MPI_Datatype parcel_ = MPI_DATATYPE_NULL;
};

// ---- both, measured and checked

// Clears what the next way has to bring again.
size_t wrong_numbers(const Sizes& sizes, const Memory& memory)
{
    std::vector<Token> sums(sizes.tokens);
    CUDA(
        cudaMemcpy(sums.data(), memory.sums, sizes.tokens * sizeof(Token), cudaMemcpyDeviceToHost));
    CUDA(cudaMemset(memory.sums, 0, sizes.tokens * sizeof(Token)));
    CUDA(cudaMemset(memory.answers, 0, sizes.tokens * kChosen * sizeof(Token)));
    size_t wrong = 0;
    for (int token = 0; token < sizes.tokens; ++token) {
        for (int i = 0; i < kNumbers; ++i) {
            uint32_t sum = 0;
            for (int choice = 0; choice < kChosen; ++choice) {
                sum += weight_of(choice) * result_of(expert_of(sizes.rank, token, choice),
                                                     number_of(sizes.rank, token, i));
            }
            wrong += sums[token].number[i] != sum;
        }
    }
    return wrong;
}

// Microseconds of a round, the median of all; each ends when every rank's has.
template <class Way>
double measure(Way& way, const char* name, const Sizes& sizes, const Memory& memory, int rounds,
               cudaStream_t stream)
{
    std::vector<double> times;
    for (int round = 1; round <= rounds; ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        way.run(round, stream);
        MPI_Barrier(MPI_COMM_WORLD);
        times.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                .count());
    }
    size_t wrong = wrong_numbers(sizes, memory), all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    if (sizes.rank == 0) {
        std::printf("%-8s %10.1f us, %zu of %zu numbers wrong\n", name, median, all,
                    static_cast<size_t>(sizes.ranks) * sizes.tokens * kNumbers);
    }
    if (all != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return median;
}

} // namespace

int main(int argc, char** argv)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); // kernels that wait keep others from being loaded
    MPI_Init(&argc, &argv);
    Sizes sizes;
    MPI_Comm_rank(MPI_COMM_WORLD, &sizes.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &sizes.ranks);
    sizes.tokens = argc > 1 ? std::atoi(argv[1]) : 128;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
    if (sizes.ranks > kMostRanks || kExperts % sizes.ranks != 0 || sizes.tokens < 1 ||
        sizes.tokens > 4096 || rounds < 1) {
        fail("usage: experts [TOKENS] [ROUNDS]", "1, 2, 4, 8 or 16 ranks, 1 to 4096 tokens");
    }
    int gpus;
    CUDA(cudaGetDeviceCount(&gpus));
    CUDA(cudaSetDevice(sizes.rank % gpus));
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    const size_t tokens = static_cast<size_t>(sizes.tokens), all = kExperts * tokens;
    const Memory memory = {on_gpu<Token>(tokens),
                           on_gpu<Parcel>(all),
                           on_gpu<Parcel>(all),
                           on_gpu<unsigned long long>(kExperts),
                           on_gpu<Token>(all),
                           on_gpu<Token>(kChosen * tokens),
                           on_gpu<unsigned long long>(kExperts),
                           on_gpu<Token>(tokens)};
    std::vector<Token> content(tokens);
    for (int token = 0; token < sizes.tokens; ++token) {
        for (int i = 0; i < kNumbers; ++i) {
            content[token].number[i] = number_of(sizes.rank, token, i);
        }
    }
    CUDA(cudaMemcpy(memory.tokens, content.data(), tokens * sizeof(Token), cudaMemcpyHostToDevice));

    Kernels kernels(sizes, memory);
    Plain plain(sizes, memory);
    const double by_kernels = measure(kernels, "kernels", sizes, memory, rounds, stream);
    const double by_mpi = measure(plain, "MPI", sizes, memory, rounds, stream);
    if (sizes.rank == 0) {
        std::printf("ratio    %10.2f\n", by_kernels / by_mpi);
    }
    MPI_Finalize();
    return 0;
}
