// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_epochs host|cuda ROUNDS: what each rank fetches from the next one's window is in its buffer
// when it has synchronised the window, before it waits for the request; and neither that wait, nor
// a synchronisation after the wait, writes the buffer again. Each way of fetching with each way of
// synchronising; then four threads that share the window, ROUNDS times. A line "rank R wrong: CASE"
// for each that is not so, with "done" at the end. And how much a rank holds for each of many
// operations before they are synchronised.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>
#include <unistd.h>

#include "gpu.hpp"

namespace {

constexpr int kCount = 1000, kThreads = 4;
constexpr int kBefore = -1, kOverwritten = -7;
int rank, ranks, target;
bool on_gpu;
thread_local std::string current;
MPI_Datatype column; // each second integer

// Integers of which MPI writes each stride-th.
class Buffer {
  public:
    Buffer()
        : data_(on_gpu ? static_cast<int*>(gpu::allocate(kBytes))
                       : static_cast<int*>(std::malloc(kBytes)))
    {
    }
    ~Buffer() { on_gpu ? gpu::free(data_) : std::free(data_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    int* data() { return data_; }
    void fill(int value)
    {
        const std::vector<int> values(2 * kCount, value);
        on_gpu ? gpu::copy(data_, values.data(), kBytes)
               : static_cast<void>(std::memcpy(data_, values.data(), kBytes));
    }
    void expect(const char* what, const std::function<int(int)>& rule)
    {
        std::vector<int> values(2 * kCount);
        on_gpu ? gpu::copy(values.data(), data_, kBytes)
               : static_cast<void>(std::memcpy(values.data(), data_, kBytes));
        int differ = 0, first = -1;
        for (int i = 0; i < 2 * kCount; ++i) {
            if (values[i] != rule(i) && differ++ == 0) {
                first = i;
            }
        }
        if (differ == 0) {
            return;
        }
        std::printf("rank %d wrong: %s: %s\n", rank, current.c_str(), what);
        std::printf("    %d differ, the first is element %d: %d, not %d\n", differ, first,
                    values[first], rule(first));
    }
    void expect_fetched(const char* what, int stride, int from)
    {
        expect(what, [=](int i) {
            const bool written = i % stride == 0 && i / stride < kCount;
            return written ? 10000 * target + from + i / stride : kBefore;
        });
    }
    void expect_all(const char* what, int value)
    {
        expect(what, [=](int) { return value; });
    }

  private:
    static constexpr size_t kBytes = 2 * kCount * sizeof(int);
    int* data_;
};

// Of kCount integers of the target's window, the first of them so far from its beginning.
struct Fetch {
    const char* name;
    int stride;
    std::function<void(int* zeros, int* to, int from, MPI_Win window, MPI_Request* request)> begin;
};

const Fetch kFetches[] = {
    {"MPI_Get", 1,
     [](int*, int* to, int from, MPI_Win window, MPI_Request*) {
         MPI_Get(to, kCount, MPI_INT, target, from, kCount, MPI_INT, window);
     }},
    {"MPI_Get of a column", 2,
     [](int*, int* to, int from, MPI_Win window, MPI_Request*) {
         MPI_Get(to, 1, column, target, from, kCount, MPI_INT, window);
     }},
    {"MPI_Get_accumulate", 1,
     [](int* zeros, int* to, int from, MPI_Win window, MPI_Request*) {
         MPI_Get_accumulate(zeros, kCount, MPI_INT, to, kCount, MPI_INT, target, from, kCount,
                            MPI_INT, MPI_SUM, window);
     }},
    {"MPI_Rget", 1,
     [](int*, int* to, int from, MPI_Win window, MPI_Request* request) {
         MPI_Rget(to, kCount, MPI_INT, target, from, kCount, MPI_INT, window, request);
     }},
    {"MPI_Rget of a column", 2,
     [](int*, int* to, int from, MPI_Win window, MPI_Request* request) {
         MPI_Rget(to, 1, column, target, from, kCount, MPI_INT, window, request);
     }},
    {"MPI_Rget_accumulate", 1,
     [](int* zeros, int* to, int from, MPI_Win window, MPI_Request* request) {
         MPI_Rget_accumulate(zeros, kCount, MPI_INT, to, kCount, MPI_INT, target, from, kCount,
                             MPI_INT, MPI_SUM, window, request);
     }},
    {"MPI_Rget_accumulate into a column", 2,
     [](int* zeros, int* to, int from, MPI_Win window, MPI_Request* request) {
         MPI_Rget_accumulate(zeros, kCount, MPI_INT, to, 1, column, target, from, kCount, MPI_INT,
                             MPI_SUM, window, request);
     }},
};

struct Epoch {
    const char* name;
    std::function<void(MPI_Win)> begin;
    std::function<void(MPI_Win)> synchronise; // of this the fetches have to be complete
    std::function<void(MPI_Win)> end;
};

void lock(MPI_Win window)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
}
void unlock(MPI_Win window)
{
    MPI_Win_unlock(target, window);
}
void lock_all(MPI_Win window)
{
    MPI_Win_lock_all(0, window);
}
void nothing(MPI_Win) {}

const Epoch kEpochs[] = {
    {"MPI_Win_flush", lock, [](MPI_Win window) { MPI_Win_flush(target, window); }, unlock},
    {"MPI_Win_flush_local", lock, [](MPI_Win window) { MPI_Win_flush_local(target, window); },
     unlock},
    {"MPI_Win_unlock", lock, unlock, nothing},
    {"MPI_Win_flush_all", lock_all, MPI_Win_flush_all, MPI_Win_unlock_all},
    {"MPI_Win_flush_local_all", lock_all, MPI_Win_flush_local_all, MPI_Win_unlock_all},
    {"MPI_Win_unlock_all", lock_all, MPI_Win_unlock_all, nothing},
};

void synchronise_first(const Fetch& fetch, const Epoch& epoch, MPI_Win window, int from,
                       Buffer& zeros, Buffer& to)
{
    MPI_Request request = MPI_REQUEST_NULL;
    to.fill(kBefore);
    epoch.begin(window);
    fetch.begin(zeros.data(), to.data(), from, window, &request);
    epoch.synchronise(window);
    to.expect_fetched("not there", fetch.stride, from);
    to.fill(kOverwritten);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    to.expect_all("written by the wait", kOverwritten);
    epoch.end(window);
}

void wait_first(const Fetch& fetch, const Epoch& epoch, MPI_Win window, int from, Buffer& zeros,
                Buffer& to)
{
    MPI_Request request = MPI_REQUEST_NULL;
    to.fill(kBefore);
    epoch.begin(window);
    fetch.begin(zeros.data(), to.data(), from, window, &request);
    if (request != MPI_REQUEST_NULL) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        to.expect_fetched("not there after the wait", fetch.stride, from);
        to.fill(kOverwritten);
        epoch.synchronise(window);
        to.expect_all("written after the wait", kOverwritten);
    } else {
        epoch.synchronise(window);
    }
    epoch.end(window);
}

// Fetches of several, of which the last are waited for, and all are flushed.
void several(MPI_Win window, int thread, int rounds)
{
    constexpr int kFetched = std::size(kFetches);
    if (on_gpu) {
        gpu::use(rank);
    }
    Buffer zeros, to[kFetched];
    zeros.fill(0);
    for (int round = 0; round < rounds; ++round) {
        MPI_Request requests[kFetched];
        for (int i = 0; i < kFetched; ++i) {
            requests[i] = MPI_REQUEST_NULL;
            to[i].fill(kBefore);
            kFetches[i].begin(zeros.data(), to[i].data(), thread, window, &requests[i]);
        }
        const int first_waited_for = round % kFetched;
        MPI_Waitall(kFetched - first_waited_for, requests + first_waited_for, MPI_STATUSES_IGNORE);
        round % 2 == 0 ? MPI_Win_flush(target, window) : MPI_Win_flush_local_all(window);
        for (int i = 0; i < kFetched; ++i) {
            current = std::string(kFetches[i].name) + " by a thread";
            to[i].expect_fetched("not there", kFetches[i].stride, thread);
            to[i].fill(kOverwritten);
        }
        MPI_Waitall(kFetched, requests, MPI_STATUSES_IGNORE);
        current = "threads";
        for (Buffer& buffer : to) {
            buffer.expect_all("written by the waits", kOverwritten);
        }
    }
}

long resident_bytes()
{
    long pages = 0;
    std::ifstream("/proc/self/statm").ignore(100, ' ') >> pages;
    return pages * sysconf(_SC_PAGESIZE);
}

// Eight bytes each, of which none is complete before the end.
void many()
{
    constexpr int kOperations = 5000;
    int sums[2] = {0, 0};
    MPI_Win window;
    MPI_Win_create(sums, sizeof(sums), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    {
        Buffer ones;
        ones.fill(1);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
        const long before = resident_bytes();
        for (int i = 0; i < kOperations; ++i) {
            MPI_Accumulate(ones.data(), 2, MPI_INT, target, 0, 2, MPI_INT, MPI_SUM, window);
        }
        std::printf("rank %d holds %ld bytes an operation\n", rank,
                    (resident_bytes() - before) / kOperations);
        MPI_Win_unlock(target, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (sums[0] != kOperations || sums[1] != kOperations) {
        std::printf("rank %d wrong: %d MPI_Accumulate: %d, %d\n", rank, kOperations, sums[0],
                    sums[1]);
    }
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
}

} // namespace

int main(int argc, char** argv)
{
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    target = (rank + 1) % ranks;
    on_gpu = std::strcmp(argv[1], "cuda") == 0;
    if (on_gpu) {
        gpu::use(rank);
    }
    MPI_Type_vector(kCount, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    std::vector<int> numbers(kCount + kThreads);
    for (int i = 0; i < kCount + kThreads; ++i) {
        numbers[i] = 10000 * rank + i;
    }
    MPI_Win window;
    MPI_Win_create(numbers.data(), numbers.size() * sizeof(int), sizeof(int), MPI_INFO_NULL,
                   MPI_COMM_WORLD, &window);
    {
        Buffer zeros, to;
        zeros.fill(0);
        for (const Epoch& epoch : kEpochs) {
            for (const Fetch& fetch : kFetches) {
                current = std::string(fetch.name) + ", " + epoch.name;
                synchronise_first(fetch, epoch, window, 0, zeros, to);
                wait_first(fetch, epoch, window, 1, zeros, to);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (provided == MPI_THREAD_MULTIPLE) {
        MPI_Win_lock_all(0, window);
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back(several, window, i, std::atoi(argv[2]));
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        MPI_Win_unlock_all(window);
    }
    MPI_Win_free(&window);
    MPI_Type_free(&column);
    many();
    std::printf("rank %d done\n", rank);
    MPI_Finalize();
}
