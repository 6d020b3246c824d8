// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_calls [--gaps] host|cuda|SEED COUNT[xTHREADS] CALL...: MPI calls on COUNT integers of host or
// GPU memory, or, with a SEED, each rank's each buffer on either at random; one after another, each
// announced, all ranks, every element checked; with --gaps of a type with gaps, which have to stay
// as they were, and by an operation of the program's own, where calls take such types; with THREADS
// by so many of each rank at the same time, which begin at different ones, and announce none;
// without a CALL all that this MPI has and can do in host memory; others are said to be lacking.
// mpi_calls --list names all, mpi_calls [--gaps] --lacking those that this MPI does not have. Exits
// with 0, with 1 when data are wrong, with 77 without a CUDA driver; or dies in the MPI library, if
// that lets the CPU touch GPU memory.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <thread>

#include "calls/collectives.hpp"
#include "calls/defects.hpp"
#include "calls/files.hpp"
#include "calls/library.hpp"
#include "calls/messages.hpp"
#include "calls/one_sided.hpp"

using namespace calls;

namespace {

// The first count elements, or, of a type with gaps, every other one.
void of_type(int count, const std::function<void(MPI_Datatype* type)>& make)
{
    if (is_alone()) {
        return;
    }
    MPI_Datatype type;
    make(&type);
    MPI_Type_commit(&type);
    Buffer buffer(2 * static_cast<size_t>(count), is_sender() ? mark(rank) : 0, Layout::contiguous);
    if (is_sender()) {
        MPI_Send(buffer.data(), 1, type, partner(), 7, world);
    } else {
        MPI_Recv(buffer.data(), 1, type, partner(), 7, world, MPI_STATUS_IGNORE);
        int size;
        MPI_Type_size(type, &size);
        MPI_Aint low, extent;
        MPI_Type_get_true_extent(type, &low, &extent);
        const bool strided = extent > size;
        buffer.expect(0, 2 * static_cast<size_t>(count) - 1, [&](size_t i) {
            const bool moved = strided ? i % 2 == 0 : i < static_cast<size_t>(count);
            return (moved ? mark(partner()) : 0) + static_cast<int>(i);
        });
    }
    MPI_Type_free(&type);
}

// Both directions, around the ring.
void start_all(int count)
{
    Buffer out(count, mark(rank)), in(count, 0);
    MPI_Request requests[2];
    MPI_Ssend_init(out.data(), count, out.type(), (rank + 1) % ranks, 7, world, &requests[0]);
    MPI_Recv_init(in.data(), count, in.type(), previous(), 7, world, &requests[1]);
    for (int i = 0; i < 3; ++i) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    in.expect(0, count, mark(previous()));
}

// Two at a time, waited for in the other order.
void all_to_all_twice(int n)
{
    const size_t all = static_cast<size_t>(n) * ranks;
    Buffer out(all, mark(rank)), in(all, 0), more_out(all, mark(rank + 50)), more_in(all, 0);
    MPI_Request first, second;
    MPI_Ialltoall(out.data(), n, out.type(), in.data(), n, in.type(), world, &first);
    MPI_Ialltoall(more_out.data(), n, more_out.type(), more_in.data(), n, more_in.type(), world,
                  &second);
    MPI_Wait(&second, MPI_STATUS_IGNORE);
    MPI_Wait(&first, MPI_STATUS_IGNORE);
    for (int r = 0; r < ranks; ++r) {
        in.expect(static_cast<size_t>(r) * n, n, mark(r) + rank * n);
        more_in.expect(static_cast<size_t>(r) * n, n, mark(r + 50) + rank * n);
    }
}

constexpr int kColumns = 3;

void wait_any(MPI_Request* requests)
{
    for (int i = 0, index; i < kColumns; ++i) {
        MPI_Waitany(kColumns, requests, &index, MPI_STATUS_IGNORE);
    }
}

void wait_some(MPI_Request* requests)
{
    int indices[kColumns];
    for (int done = 0, some; done < kColumns; done += some) {
        MPI_Waitsome(kColumns, requests, &some, indices, MPI_STATUSES_IGNORE);
    }
}

void test_all(MPI_Request* requests)
{
    for (int done = 0; done == 0;) {
        MPI_Testall(kColumns, requests, &done, MPI_STATUSES_IGNORE);
    }
}

void test_any(MPI_Request* requests)
{
    for (int done = 0; done < kColumns;) {
        int index, flag;
        MPI_Testany(kColumns, requests, &index, &flag, MPI_STATUS_IGNORE);
        done += flag;
    }
}

// MPI 4.1's, of which MPI sees the requests to be complete and leaves them.
void status_of_all(MPI_Request* requests)
{
    for (int done = 0; done == 0;) {
        invoke("MPI_Request_get_status_all", kColumns, static_cast<const MPI_Request*>(requests),
               &done, MPI_STATUSES_IGNORE);
    }
}

// One by one, as what has been seen is seen again.
void status_of_any(MPI_Request* requests)
{
    for (int i = 0; i < kColumns; ++i) {
        for (int done = 0, index; done == 0;) {
            invoke("MPI_Request_get_status_any", 1, static_cast<const MPI_Request*>(&requests[i]),
                   &index, &done, MPI_STATUS_IGNORE);
        }
    }
}

// As MPICH makes no progress where one is complete, one by one before all.
void status_of_some(MPI_Request* requests)
{
    const auto some_of = [&](int first, int count) {
        int some, indices[kColumns];
        invoke("MPI_Request_get_status_some", count,
               static_cast<const MPI_Request*>(&requests[first]), &some, indices,
               MPI_STATUSES_IGNORE);
        return some;
    };
    for (int i = 0; i < kColumns; ++i) {
        while (some_of(i, 1) != 1) {
        }
    }
    wrong += some_of(0, kColumns) != kColumns;
}

// Three columns of one matrix, under way at the same time: each request's bytes lie between those
// of the others. And a fourth, which belongs to none.
void columns(int n, void (*complete)(MPI_Request*))
{
    MPI_Datatype column;
    MPI_Type_vector(n, 1, kColumns + 1, MPI_INT, &column);
    MPI_Type_commit(&column);
    const size_t all = static_cast<size_t>(n) * (kColumns + 1);
    Buffer out(all, mark(rank), Layout::contiguous), in(all, 0, Layout::contiguous);
    const int next = (rank + 1) % ranks;
    MPI_Request requests[kColumns], sends[kColumns];
    for (int i = 0; i < kColumns; ++i) {
        MPI_Irecv(in.at(i), 1, column, previous(), i, world, &requests[i]);
    }
    for (int i = kColumns - 1; i >= 0; --i) {
        MPI_Isend(out.at(i), 1, column, next, i, world, &sends[i]);
    }
    complete(requests);
    MPI_Waitall(kColumns, sends, MPI_STATUSES_IGNORE);
    in.expect(0, all, [](size_t i) {
        return (i % (kColumns + 1) < kColumns ? mark(previous()) : 0) + static_cast<int>(i);
    });
    MPI_Waitall(kColumns, requests, MPI_STATUSES_IGNORE); // those that are left
    MPI_Type_free(&column);
}

// A persistent send that is forgotten, and a receive, of which a later message tells that it is
// complete.
void free_requests(int n)
{
    const size_t all = 2 * static_cast<size_t>(n);
    Buffer out(all, mark(rank), Layout::contiguous), in(all, 0, Layout::contiguous);
    const int next = (rank + 1) % ranks;
    MPI_Datatype every_other;
    MPI_Type_vector(n, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Request receive, send;
    MPI_Irecv(in.data(), 1, every_other, previous(), 7, world, &receive);
    MPI_Send_init(out.data(), 1, every_other, next, 7, world, &send);
    MPI_Start(&send);
    MPI_Request_free(&send);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Barrier(world);
    const auto expected = [](size_t i) {
        return (i % 2 == 0 ? mark(previous()) : 0) + static_cast<int>(i);
    };
    in.expect(0, all - 1, expected);

    Buffer forgotten(all, 0, Layout::contiguous);
    MPI_Irecv(forgotten.data(), 1, every_other, previous(), 7, world, &receive);
    MPI_Request_free(&receive);
    MPI_Send(out.data(), 1, every_other, next, 7, world);
    int sent = 0, told = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, next, 8, &told, 1, MPI_INT, previous(), 8, world,
                 MPI_STATUS_IGNORE);
    forgotten.expect(0, all - 1, expected);
    MPI_Type_free(&every_other);
}

// A type of absolute addresses.
void bottom(int n)
{
    Buffer out(n, mark(rank)), in(n, 0);
    const int next = (rank + 1) % ranks;
    MPI_Aint from, to;
    MPI_Get_address(out.data(), &from);
    MPI_Get_address(in.data(), &to);
    MPI_Datatype sent, received;
    MPI_Type_create_hindexed(1, &n, &from, out.type(), &sent);
    MPI_Type_create_hindexed(1, &n, &to, in.type(), &received);
    MPI_Type_commit(&sent);
    MPI_Type_commit(&received);
    MPI_Sendrecv(MPI_BOTTOM, 1, sent, next, 7, MPI_BOTTOM, 1, received, previous(), 7, world,
                 MPI_STATUS_IGNORE);
    in.expect(0, n, mark(previous()));
    MPI_Type_free(&sent);
    MPI_Type_free(&received);
}

// What is no call in one of its forms.
const Call kOthers[] = {
    {"MPI_Startall", start_all},
    {"MPI_Probe",
     [](int n) {
         receive_by(blocking("Recv").front(), n, [n](Buffer& buffer) {
             MPI_Status status;
             MPI_Probe(partner(), 7, world, &status);
             MPI_Recv(buffer.data(), n, buffer.type(), partner(), 7, world, MPI_STATUS_IGNORE);
         });
     }},
    {"MPI_Type_contiguous",
     [](int n) { of_type(n, [n](MPI_Datatype* t) { MPI_Type_contiguous(n, MPI_INT, t); }); }},
    {"MPI_Type_vector",
     [](int n) { of_type(n, [n](MPI_Datatype* t) { MPI_Type_vector(n, 1, 2, MPI_INT, t); }); }},
    {"MPI_Type_indexed",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             std::vector<int> lengths(n, 1), offsets(n);
             for (int i = 0; i < n; ++i) {
                 offsets[i] = 2 * i;
             }
             MPI_Type_indexed(n, lengths.data(), offsets.data(), MPI_INT, t);
         });
     }},
    {"MPI_Type_create_struct",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             std::vector<int> lengths(n, 1);
             std::vector<MPI_Aint> offsets(n);
             for (int i = 0; i < n; ++i) {
                 offsets[i] = 2 * i * static_cast<MPI_Aint>(sizeof(int));
             }
             const std::vector<MPI_Datatype> types(n, MPI_INT);
             MPI_Type_create_struct(n, lengths.data(), offsets.data(), types.data(), t);
         });
     }},
    {"MPI_Type_create_subarray",
     [](int n) {
         of_type(n, [n](MPI_Datatype* t) {
             const int whole[] = {n, 2}, part[] = {n, 1}, start[] = {0, 0};
             MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, t);
         });
     }},
    {"MPI_Allgather_in_place",
     [](int n) {
         Buffer all(static_cast<size_t>(n) * ranks, 7);
         MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), n, all.type(), world);
         all.expect(0, static_cast<size_t>(n) * ranks, 7);
     }},
    {"MPI_Allreduce_in_place",
     [](int n) {
         Buffer both(n, mark(rank));
         MPI_Allreduce(MPI_IN_PLACE, both.data(), n, both.type(), both.sum(), world);
         both.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Op_create",
     [](int n) {
         Buffer out(n, mark(rank)), in(n, 0);
         MPI_Op op;
         MPI_Op_create(add, 1, &op);
         MPI_Allreduce(out.data(), in.data(), n, in.type(), op, world);
         MPI_Op_free(&op);
         in.expect(0, n, [](size_t i) { return sum_of_marks(ranks - 1, i); });
     }},
    {"MPI_Ialltoall_twice", all_to_all_twice},
    {"MPI_Waitany", [](int n) { columns(n, wait_any); }},
    {"MPI_Waitsome", [](int n) { columns(n, wait_some); }},
    {"MPI_Testall", [](int n) { columns(n, test_all); }},
    {"MPI_Testany", [](int n) { columns(n, test_any); }},
    {"MPI_Request_free", free_requests},
    {"MPI_BOTTOM", bottom},
    {"MPI_Barrier", [](int) { MPI_Barrier(world); }},
};

const Call kStatuses[] = {
    {"MPI_Request_get_status_all", [](int n) { columns(n, status_of_all); }},
    {"MPI_Request_get_status_any", [](int n) { columns(n, status_of_any); }},
    {"MPI_Request_get_status_some", [](int n) { columns(n, status_of_some); }},
};

std::vector<Call> all_calls()
{
    std::vector<Call> made;
    for (const std::vector<Call>& some :
         {message_calls(), collective_calls(), one_sided_calls(), file_calls()}) {
        made.insert(made.end(), some.begin(), some.end());
    }
    made.insert(made.end(), std::begin(kStatuses), std::end(kStatuses));
    made.insert(made.end(), std::begin(kOthers), std::end(kOthers));
    return made;
}

// Names that are no functions are rows about some that every MPI has.
bool is_lacking(const Call& call)
{
    const auto is_other = [&](const Call& other) { return other.name == call.name; };
    return is_defective(call.name, Buffer::usual_layout) ||
           (std::ranges::none_of(kOthers, is_other) && !in_library(call.name.c_str()));
}

void make(const std::vector<Call>& chosen, int count, bool announces)
{
    for (const Call& call : chosen) {
        MPI_Barrier(world); // where a rank dies now, it dies of this call
        const bool lacking = is_lacking(call);
        if (rank == 0 && announces) {
            std::printf("%s: %s\n", lacking ? "lacking" : "call", call.name.c_str());
        }
        std::fflush(stdout);
        if (lacking) {
            continue;
        }
        const int before = wrong;
        call.run(count);
        if (wrong != before) {
            std::printf("rank %d: FAILED %s: %d elements are wrong\n", rank, call.name.c_str(),
                        wrong - before);
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    const std::vector<Call> all = all_calls();
    if (argc > 1 && std::strcmp(argv[1], "--gaps") == 0) {
        Buffer::usual_layout = Layout::gaps;
        --argc;
        ++argv;
    }
    if (argc == 2) {
        const bool lacking = std::strcmp(argv[1], "--lacking") == 0;
        for (const Call& call : all) {
            if (!lacking || is_lacking(call)) {
                std::puts(call.name.c_str());
            }
        }
        return 0;
    }
    if (argc < 3) {
        std::fprintf(stderr, "usage: mpi_calls [--gaps] host|cuda|SEED COUNT CALL..., or mpi_calls "
                             "[--gaps] --list|--lacking\n");
        return 2;
    }
    Buffer::memory = std::strcmp(argv[1], "host") == 0   ? Buffer::Memory::host
                     : std::strcmp(argv[1], "cuda") == 0 ? Buffer::Memory::gpu
                                                         : Buffer::Memory::random;
    if (Buffer::memory != Buffer::Memory::host) {
        gpu::use(gpu::rank_in_job());
    }
    const int count = std::atoi(argv[2]);
    const char* const by = std::strchr(argv[2], 'x');
    const int threads = by == nullptr ? 1 : std::atoi(by + 1);
    std::vector<Call> chosen;
    if (argc == 3) {
        std::ranges::copy_if(all, std::back_inserter(chosen),
                             [](const Call& call) { return !is_lacking(call); });
    }
    for (int i = 3; i < argc; ++i) {
        const auto call = std::ranges::find(all, argv[i], &Call::name);
        if (call == all.end()) {
            std::fprintf(stderr, "no such call: %s\n", argv[i]);
            return 2;
        }
        chosen.push_back(*call);
    }
    int provided = 0;
    MPI_Init_thread(&argc, &argv, threads == 1 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                    &provided);
    if (threads > 1 && provided != MPI_THREAD_MULTIPLE) {
        return 77;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::vector<MPI_Comm> comms(static_cast<size_t>(threads), MPI_COMM_WORLD);
    if (threads > 1) {
        for (MPI_Comm& own : comms) {
            MPI_Comm_dup(MPI_COMM_WORLD, &own);
        }
    }
    std::atomic<int> all_wrong{0};
    const auto work = [&](int number) {
        thread = number;
        world = comms[number];
        if (Buffer::memory != Buffer::Memory::host) {
            gpu::use(gpu::rank_in_job());
        }
        Buffer::random.seed(
            static_cast<unsigned>(std::atoi(argv[1]) * 1000 + rank * threads + number));
        std::vector<Call> own = chosen;
        std::ranges::rotate(own, own.begin() + own.size() * number / threads);
        make(own, count, threads == 1);
        all_wrong += wrong;
    };
    std::vector<std::thread> others;
    for (int number = 1; number < threads; ++number) {
        others.emplace_back(work, number);
    }
    work(0);
    for (std::thread& other : others) {
        other.join();
    }
    MPI_Finalize();
    return all_wrong == 0 ? 0 : 1;
}
