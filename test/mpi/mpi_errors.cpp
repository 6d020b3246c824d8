// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_errors host|cuda CASE...: erroneous calls of MPI, and other ends of requests than the usual
// one, with buffers in host or GPU memory; without
// a CASE all of them. For each, each rank prints one line: the error classes that were returned,
// which error handlers were called how often, which buffers have changed, and whether calls that
// follow are right. mpi_errors --list names the cases. mpi_errors host|cuda --repeat CALLS CASE...:
// these in turn, some CALLS calls in two halves: prints by how many KiB and descriptors the process
// has grown in the second. Exits with 77 without a CUDA driver; or dies, if MPI does.
#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/mman.h>

#include "gpu.hpp"
#include "growth.hpp"

namespace {

constexpr int kCount = 8192; // integers of each buffer
constexpr size_t kBytes = kCount * sizeof(int);
bool on_gpu;
int rank, ranks;

// Memory that is of nobody when it is freed.
int* allocate()
{
    if (on_gpu) {
        return static_cast<int*>(gpu::allocate(kBytes));
    }
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        std::exit(1);
    }
    return static_cast<int*>(memory);
}
void release(int* memory)
{
    if (on_gpu) {
        gpu::free(memory);
    } else {
        munmap(memory, kBytes);
    }
}
void copy(int* to, const int* from)
{
    if (on_gpu) {
        gpu::copy(to, from, kBytes);
    } else {
        std::memcpy(to, from, kBytes);
    }
}
int* filled(int value)
{
    int* memory = allocate();
    const std::vector<int> values(kCount, value);
    copy(memory, values.data());
    return memory;
}
bool holds(const int* memory, int value)
{
    std::vector<int> values(kCount);
    copy(values.data(), memory);
    return std::ranges::count(values, value) == kCount;
}

// How often each error handler was called.
struct Handled {
    int comm = 0, world = 0, self = 0, window = 0, file = 0;
} handled;

void count_comm(MPI_Comm* comm, int*, ...)
{
    ++(*comm == MPI_COMM_WORLD  ? handled.world
       : *comm == MPI_COMM_SELF ? handled.self
                                : handled.comm);
}
void count_window(MPI_Win*, int*, ...)
{
    ++handled.window;
}
void count_file(MPI_File*, int*, ...)
{
    ++handled.file;
}

struct Context {
    MPI_Comm comm;
    MPI_Win window;   // kCount integers of host memory, locked for all
    MPI_Win unlocked; // the same without an epoch
    MPI_File read_only, write_only, full;
    MPI_Datatype column; // 4000 of 8000 integers: a kernel packs them
    MPI_Datatype few;    // 10 of 20
    MPI_Datatype uncommitted;
    int *out, *in;
    int previous, next;

    // A message of so many integers to the next rank, which that rank receives from this one.
    void send(int count, int tag) const
    {
        MPI_Request request;
        static const std::vector<int> message(kCount, 9);
        MPI_Isend(message.data(), count, MPI_INT, next, tag, comm, &request);
        MPI_Request_free(&request);
    }
};

// How many integers of messages are in the second half of the buffer.
int received(const Context& c)
{
    std::vector<int> values(kCount);
    copy(values.data(), c.in);
    return static_cast<int>(std::count(values.begin() + 4000, values.end(), 9));
}

using Codes = std::vector<int>;
struct Case {
    std::string name;
    std::function<Codes(const Context&)> run;
};

MPI_Status status_of(int error)
{
    MPI_Status status;
    std::memset(&status, 0, sizeof(status));
    status.MPI_ERROR = error;
    return status;
}

void throw_it(MPI_Comm*, int* code, ...)
{
    ++handled.comm;
    throw std::runtime_error(std::to_string(*code));
}

// By an error handler that throws, which leaves the call.
Codes send_to_no_rank(const Context& c)
{
    Codes codes;
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup(c.comm, &comm);
    MPI_Comm_create_errhandler(throw_it, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    try {
        MPI_Send(c.out, 1, c.column, ranks, 1, comm);
    } catch (const std::runtime_error& error) {
        codes.push_back(std::atoi(error.what()));
    }
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    return codes;
}

std::jmp_buf before_call;

void jump(MPI_Comm*, int* code, ...)
{
    std::longjmp(before_call, *code);
}

// By an error handler that leaves the call by longjmp: whether it did.
template <typename Call>
bool left(const Context& c, Call call)
{
    MPI_Comm comm;
    MPI_Errhandler handler, of_world;
    MPI_Comm_dup(c.comm, &comm);
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_world);
    for (MPI_Comm with_it : {comm, MPI_COMM_WORLD}) {
        MPI_Comm_set_errhandler(with_it, handler);
    }
    MPI_Errhandler_free(&handler);
    const bool left = setjmp(before_call) != 0;
    if (!left) {
        call(comm);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_world);
    MPI_Errhandler_free(&of_world);
    return left; // what MPI then holds of the communicator is not known: it stays
}

int ended_with;

void end_thread(MPI_Comm*, int* code, ...)
{
    ++handled.comm;
    ended_with = *code;
    pthread_exit(nullptr);
}

// By an error handler that ends the thread, which leaves the call.
Codes send_of_a_thread(const Context& c)
{
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_dup(c.comm, &comm);
    MPI_Comm_create_errhandler(end_thread, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    std::thread([&] {
        MPI_Send(c.out, 1, c.column, ranks, 1, comm);
        ended_with = MPI_SUCCESS;
    }).join();
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    return {ended_with};
}

Codes must_leave(bool has_left)
{
    return {has_left ? MPI_SUCCESS : MPI_ERR_OTHER};
}

// The only case that needs threads. With them Open MPI 4.1.4 waits for ever in the second
// MPI_Waitall after one of two requests had failed, so others run without.
const Case kOfAThread = {"send_rank_thread_left", send_of_a_thread};

const Case kMessages[] = {
    {"send_rank_thrown", send_to_no_rank},
    {"send_rank_left",
     [](auto& c) {
         return must_leave(
             left(c, [&](MPI_Comm comm) { MPI_Send(c.out, 1, c.column, ranks, 1, comm); }));
     }},
    {"sendrecv_few_rank_left",
     [](auto& c) {
         return must_leave(left(c, [&](MPI_Comm comm) {
             MPI_Sendrecv(c.out, 1, c.few, ranks, 1, c.in, 1, c.few, ranks, 1, comm,
                          MPI_STATUS_IGNORE);
         }));
     }},
    {"allreduce_no_type_left",
     [](auto& c) {
         return must_leave(left(c, [&](MPI_Comm comm) {
             MPI_Allreduce(c.out, c.in, 1, MPI_DATATYPE_NULL, MPI_SUM, comm);
         }));
     }},
    {"send_count", [](auto& c) { return Codes{MPI_Send(c.out, -1, c.column, c.next, 1, c.comm)}; }},
    {"send_no_type",
     [](auto& c) { return Codes{MPI_Send(c.out, 1, MPI_DATATYPE_NULL, c.next, 1, c.comm)}; }},
    {"send_uncommitted",
     [](auto& c) { return Codes{MPI_Send(c.out, 1, c.uncommitted, c.next, 1, c.comm)}; }},
    {"send_rank", [](auto& c) { return Codes{MPI_Send(c.out, 1, c.column, ranks, 1, c.comm)}; }},
    {"send_tag", [](auto& c) { return Codes{MPI_Send(c.out, 1, c.column, c.next, -7, c.comm)}; }},
    {"send_no_comm",
     [](auto& c) { return Codes{MPI_Send(c.out, 1, c.column, c.next, 1, MPI_COMM_NULL)}; }},
    {"ssend_few_rank", [](auto& c) { return Codes{MPI_Ssend(c.out, 1, c.few, -9, 1, c.comm)}; }},
    {"isend_tag",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Isend(c.out, 1, c.column, c.next, -7, c.comm, &request)};
     }},
    {"isend_no_comm",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Isend(c.out, 1, c.column, c.next, 1, MPI_COMM_NULL, &request)};
     }},
    {"bsend_no_room",
     [](auto& c) { return Codes{MPI_Bsend(c.out, 1, c.column, c.next, 1, c.comm)}; }},
    {"bsend_little_room",
     [](auto& c) {
         void* room = std::malloc(MPI_BSEND_OVERHEAD + 100);
         Codes codes{MPI_Buffer_attach(room, MPI_BSEND_OVERHEAD + 100)};
         codes.push_back(MPI_Bsend(c.out, 1, c.column, c.next, 1, c.comm));
         int bytes;
         codes.push_back(MPI_Buffer_detach(&room, &bytes));
         std::free(room);
         return codes;
     }},
    {"attach_size", [](auto& c) { return Codes{MPI_Buffer_attach(c.out, -5)}; }},
    {"attach_twice",
     [](auto& c) {
         void* room = nullptr;
         int bytes = 0;
         Codes codes{MPI_Buffer_attach(c.out, 4000), MPI_Buffer_attach(c.in, 4000)};
         codes.push_back(MPI_Buffer_detach(&room, &bytes));
         codes.push_back(room == c.out && bytes == 4000 ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"recv_count",
     [](auto& c) {
         return Codes{MPI_Recv(c.in, -1, c.column, c.previous, 1, c.comm, MPI_STATUS_IGNORE)};
     }},
    {"recv_no_type",
     [](auto& c) {
         return Codes{
             MPI_Recv(c.in, 1, MPI_DATATYPE_NULL, c.previous, 1, c.comm, MPI_STATUS_IGNORE)};
     }},
    {"recv_rank",
     [](auto& c) { return Codes{MPI_Recv(c.in, 1, c.few, ranks, 1, c.comm, MPI_STATUS_IGNORE)}; }},
    {"recv_tag",
     [](auto& c) {
         return Codes{MPI_Recv(c.in, 1, c.column, c.previous, -77, c.comm, MPI_STATUS_IGNORE)};
     }},
    {"recv_truncated",
     [](auto& c) {
         c.send(6000, 2);
         return Codes{MPI_Recv(c.in, 1, c.column, c.previous, 2, c.comm, MPI_STATUS_IGNORE)};
     }},
    {"recv_few_truncated",
     [](auto& c) {
         c.send(12, 2);
         MPI_Status status = status_of(-1);
         Codes codes{MPI_Recv(c.in, 1, c.few, c.previous, 2, c.comm, &status)};
         codes.push_back(status.MPI_SOURCE == c.previous ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"recv_direct_truncated",
     [](auto& c) {
         c.send(12, 2);
         return Codes{MPI_Recv(c.in, 10, MPI_INT, c.previous, 2, c.comm, MPI_STATUS_IGNORE)};
     }},
    {"irecv_truncated",
     [](auto& c) {
         MPI_Request request;
         MPI_Irecv(c.in, 1, c.column, c.previous, 3, c.comm, &request);
         c.send(6000, 3);
         Codes codes{MPI_Wait(&request, MPI_STATUS_IGNORE)};
         codes.push_back(request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"irecv_truncated_test",
     [](auto& c) {
         MPI_Request request;
         MPI_Irecv(c.in, 1, c.few, c.previous, 3, c.comm, &request);
         c.send(12, 3);
         int done = 0, result = MPI_SUCCESS;
         while (done == 0 && result == MPI_SUCCESS) {
             result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
         }
         return Codes{result, request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_OTHER};
     }},
    {"irecv_truncated_all",
     [](auto& c) {
         MPI_Request requests[2];
         MPI_Irecv(c.in, 1, c.few, c.previous, 3, c.comm, &requests[0]);
         MPI_Irecv(c.in + 4000, 1, c.few, c.previous, 4, c.comm, &requests[1]);
         c.send(12, 3);
         c.send(10, 4);
         MPI_Status statuses[2] = {status_of(-1), status_of(-1)};
         Codes codes{MPI_Waitall(2, requests, statuses)};
         // What is still under way after an error, if anything.
         codes.push_back(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
         if (codes[0] != MPI_SUCCESS) {
             codes.push_back(statuses[0].MPI_ERROR);
         }
         return codes;
     }},
    {"irecv_truncated_some",
     [](auto& c) {
         MPI_Request request;
         MPI_Irecv(c.in, 1, c.few, c.previous, 3, c.comm, &request);
         c.send(12, 3);
         int done = 0, index = -1;
         MPI_Status status = status_of(MPI_SUCCESS);
         const int result = MPI_Waitsome(1, &request, &done, &index, &status);
         return Codes{result, status.MPI_ERROR,
                      request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_OTHER};
     }},
#ifndef OPEN_MPI // 4.1.4 at times sets the other request to NULL, too, without a word
    {"irecv_truncated_other_goes_on",
     [](auto& c) {
         MPI_Request requests[2];
         MPI_Irecv(c.in, 1, c.few, c.previous, 3, c.comm, &requests[0]);
         MPI_Irecv(c.in + 4000, 1, c.few, c.previous, 4, c.comm, &requests[1]);
         c.send(12, 3);
         int done = 0, indices[2];
         MPI_Status statuses[2] = {status_of(MPI_SUCCESS), status_of(MPI_SUCCESS)};
         Codes codes{MPI_Waitsome(2, requests, &done, indices, statuses)};
         MPI_Barrier(c.comm);
         c.send(10, 4);
         codes.push_back(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
         codes.push_back(received(c) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
#endif
    {"irecv_truncated_any",
     [](auto& c) {
         MPI_Request request;
         MPI_Irecv(c.in, 1, c.column, c.previous, 3, c.comm, &request);
         c.send(6000, 3);
         int index = -1;
         const int result = MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
         return Codes{result, request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_ERR_OTHER};
     }},
    {"recv_init_truncated",
     [](auto& c) {
         MPI_Request request;
         Codes codes{MPI_Recv_init(c.in, 1, c.few, c.previous, 3, c.comm, &request)};
         codes.push_back(MPI_Start(&request));
         c.send(12, 3);
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         codes.push_back(MPI_Start(&request)); // it still can be
         c.send(10, 3);
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         codes.push_back(MPI_Request_free(&request));
         return codes;
     }},
    {"recv_init_truncated_all", // the other one has received
     [](auto& c) {
         MPI_Request requests[2];
         MPI_Recv_init(c.in, 1, c.few, c.previous, 3, c.comm, &requests[0]);
         MPI_Recv_init(c.in + 4000, 1, c.few, c.previous, 4, c.comm, &requests[1]);
         Codes codes{MPI_Startall(2, requests)};
         c.send(12, 3);
         c.send(10, 4);
         codes.push_back(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
         codes.push_back(received(c) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         codes.push_back(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
         MPI_Request_free(&requests[0]);
         MPI_Request_free(&requests[1]);
         return codes;
     }},
    {"startall_one_null", // none is started, and MPI_Wait has nothing to write
     [](auto& c) {
         MPI_Request requests[2];
         MPI_Recv_init(c.in, 1, c.few, c.previous, 3, c.comm, &requests[0]);
         requests[1] = MPI_REQUEST_NULL;
         Codes codes{MPI_Startall(2, requests)};
         const std::vector<int> fives(kCount, 5);
         copy(c.in, fives.data());
         codes.push_back(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
         codes.push_back(holds(c.in, 5) ? MPI_SUCCESS : MPI_ERR_OTHER);
         MPI_Request_free(&requests[0]);
         return codes;
     }},
    {"send_init_rank",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Send_init(c.out, 1, c.column, ranks, 3, c.comm, &request)};
     }},
    {"mrecv_truncated",
     [](auto& c) {
         c.send(12, 3);
         MPI_Message message;
         Codes codes{MPI_Mprobe(c.previous, 3, c.comm, &message, MPI_STATUS_IGNORE)};
         codes.push_back(MPI_Mrecv(c.in, 1, c.few, &message, MPI_STATUS_IGNORE));
         return codes;
     }},
    {"mrecv_no_message",
     [](auto& c) {
         MPI_Message message = MPI_MESSAGE_NULL;
         return Codes{MPI_Mrecv(c.in, 1, c.column, &message, MPI_STATUS_IGNORE)};
     }},
    {"sendrecv_truncated",
     [](auto& c) {
         return Codes{MPI_Sendrecv(c.out, 1, c.column, c.next, 5, c.in, 1, c.few, c.previous, 5,
                                   c.comm, MPI_STATUS_IGNORE)};
     }},
    {"sendrecv_rank",
     [](auto& c) {
         return Codes{MPI_Sendrecv(c.out, 1, c.column, ranks, 5, c.in, 1, c.column, ranks, 5,
                                   c.comm, MPI_STATUS_IGNORE)};
     }},
    {"sendrecv_replace_rank",
     [](auto& c) {
         return Codes{MPI_Sendrecv_replace(c.in, 1, c.column, ranks, 5, ranks, 5, c.comm,
                                           MPI_STATUS_IGNORE)};
     }},
    {"sendrecv_replace_count",
     [](auto& c) {
         return Codes{MPI_Sendrecv_replace(c.in, -1, c.column, c.next, 5, c.previous, 5, c.comm,
                                           MPI_STATUS_IGNORE)};
     }},
};

// While a request of the layer's is under way: these are the calls that it looks at.
template <class Call>
Codes with_request(const Context& c, Call call)
{
    MPI_Request request;
    MPI_Irecv(c.in, 1, c.few, c.previous, 6, c.comm, &request);
    Codes codes{call()};
    c.send(10, 6);
    codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return codes;
}

const Case kRequests[] = {
    {"wait_nowhere",
     [](auto& c) { return with_request(c, [] { return MPI_Wait(nullptr, MPI_STATUS_IGNORE); }); }},
    {"start_nothing",
     [](auto& c) {
         MPI_Request null = MPI_REQUEST_NULL;
         return with_request(c, [&] { return MPI_Start(&null); });
     }},
    {"free_nothing",
     [](auto& c) {
         MPI_Request null = MPI_REQUEST_NULL;
         return with_request(c, [&] { return MPI_Request_free(&null); });
     }},
    {"start_nowhere", [](auto& c) { return with_request(c, [] { return MPI_Start(nullptr); }); }},
    {"free_nowhere",
     [](auto& c) { return with_request(c, [] { return MPI_Request_free(nullptr); }); }},
    {"test_no_flag",
     [](auto& c) {
         MPI_Request null = MPI_REQUEST_NULL;
         return with_request(c, [&] { return MPI_Test(&null, nullptr, MPI_STATUS_IGNORE); });
     }},
    {"waitall_count",
     [](auto& c) {
         MPI_Request null = MPI_REQUEST_NULL;
         return with_request(c, [&] { return MPI_Waitall(-1, &null, MPI_STATUSES_IGNORE); });
     }},
    {"waitall_nowhere",
     [](auto& c) {
         return with_request(c, [] { return MPI_Waitall(2, nullptr, MPI_STATUSES_IGNORE); });
     }},
    {"startall_nowhere",
     [](auto& c) { return with_request(c, [] { return MPI_Startall(2, nullptr); }); }},
    {"waitany_count",
     [](auto& c) {
         int index = 0;
         return with_request(c,
                             [&] { return MPI_Waitany(-1, nullptr, &index, MPI_STATUS_IGNORE); });
     }},
    {"wait_freed", // which is nothing: a success
     [](auto& c) {
         MPI_Request request;
         MPI_Isend(c.out, 1, c.few, c.next, 6, c.comm, &request);
         Codes codes{MPI_Request_free(&request), MPI_Wait(&request, MPI_STATUS_IGNORE)};
         codes.push_back(MPI_Recv(c.in, 1, c.few, c.previous, 6, c.comm, MPI_STATUS_IGNORE));
         return codes;
     }},
};

// Ends of requests that are no errors.
const Case kEnds[] = {
    {"cancelled",
     [](auto& c) {
         Codes codes;
         for (const MPI_Datatype type : {c.column, c.few}) {
             MPI_Request request;
             MPI_Status status;
             int cancelled = 0;
             MPI_Irecv(c.in, 1, type, c.previous, 60, c.comm, &request);
             codes.push_back(MPI_Cancel(&request));
             codes.push_back(MPI_Wait(&request, &status));
             MPI_Test_cancelled(&status, &cancelled);
             codes.push_back(cancelled != 0 ? MPI_SUCCESS : MPI_ERR_OTHER);
         }
         codes.push_back(holds(c.in, 2) ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"cancelled_persistent", // and started again
     [](auto& c) {
         MPI_Request request;
         MPI_Recv_init(c.in + 4000, 1, c.few, c.previous, 61, c.comm, &request);
         Codes codes{MPI_Start(&request), MPI_Cancel(&request)};
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         codes.push_back(holds(c.in, 2) ? MPI_SUCCESS : MPI_ERR_OTHER);
         MPI_Barrier(c.comm); // no message comes before it is cancelled
         codes.push_back(MPI_Start(&request));
         c.send(10, 61);
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         codes.push_back(received(c) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         codes.push_back(MPI_Request_free(&request));
         return codes;
     }},
    {"told_before_wait", // MPI_Wait writes nothing any more
     [](auto& c) {
         MPI_Request request;
         MPI_Irecv(c.in + 4000, 1, c.few, c.previous, 62, c.comm, &request);
         c.send(10, 62);
         Codes codes;
         for (int done = 0; done == 0;) {
             codes = {MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE)};
         }
         codes.push_back(received(c) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         const std::vector<int> fives(kCount, 5);
         copy(c.in, fives.data());
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         codes.push_back(holds(c.in, 5) ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"comm_and_type_freed", // while messages are under way
     [](auto& c) {
         MPI_Comm comm;
         MPI_Datatype type;
         MPI_Request requests[2];
         MPI_Comm_dup(c.comm, &comm);
         MPI_Type_vector(10, 1, 2, MPI_INT, &type);
         MPI_Type_commit(&type);
         MPI_Irecv(c.in + 4000, 1, type, c.previous, 63, comm, &requests[0]);
         static const std::vector<int> message(10, 9);
         MPI_Isend(message.data(), 10, MPI_INT, c.next, 63, comm, &requests[1]);
         Codes codes{MPI_Type_free(&type), MPI_Comm_free(&comm)};
         codes.push_back(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
         codes.push_back(received(c) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
};

const Case kCollectives[] = {
    {"allreduce_count",
     [](auto& c) { return Codes{MPI_Allreduce(c.out, c.in, -1, MPI_INT, MPI_SUM, c.comm)}; }},
    {"allreduce_no_type",
     [](auto& c) {
         return Codes{MPI_Allreduce(c.out, c.in, 10, MPI_DATATYPE_NULL, MPI_SUM, c.comm)};
     }},
    {"allreduce_no_op",
     [](auto& c) { return Codes{MPI_Allreduce(c.out, c.in, 10, MPI_INT, MPI_OP_NULL, c.comm)}; }},
    {"allreduce_op",
     [](auto& c) { return Codes{MPI_Allreduce(c.out, c.in, 10, MPI_DOUBLE, MPI_BAND, c.comm)}; }},
    {"allreduce_no_comm",
     [](auto& c) {
         return Codes{MPI_Allreduce(c.out, c.in, 10, MPI_INT, MPI_SUM, MPI_COMM_NULL)};
     }},
    {"allreduce_aliased",
     [](auto& c) { return Codes{MPI_Allreduce(c.in, c.in, 10, MPI_INT, MPI_SUM, c.comm)}; }},
    {"iallreduce_no_op",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Iallreduce(c.out, c.in, 10, MPI_INT, MPI_OP_NULL, c.comm, &request)};
     }},
    {"reduce_root",
     [](auto& c) { return Codes{MPI_Reduce(c.out, c.in, 10, MPI_INT, MPI_SUM, ranks, c.comm)}; }},
    {"reduce_in_place_everywhere",
     [](auto& c) {
         return Codes{MPI_Reduce(MPI_IN_PLACE, c.in, -1, MPI_INT, MPI_SUM, 0, c.comm)};
     }},
    {"reduce_scatter_counts",
     [](auto& c) {
         const std::vector<int> counts(ranks, -4);
         return Codes{MPI_Reduce_scatter(c.out, c.in, counts.data(), MPI_INT, MPI_SUM, c.comm)};
     }},
    {"reduce_scatter_no_counts",
     [](auto& c) {
         return Codes{MPI_Reduce_scatter(c.out, c.in, nullptr, MPI_INT, MPI_SUM, c.comm)};
     }},
    {"reduce_local_op",
     [](auto& c) { return Codes{MPI_Reduce_local(c.out, c.in, 10, MPI_DOUBLE, MPI_BXOR)}; }},
    {"reduce_local_count",
     [](auto& c) { return Codes{MPI_Reduce_local(c.out, c.in, -10, MPI_INT, MPI_SUM)}; }},
    {"scan_no_op",
     [](auto& c) { return Codes{MPI_Scan(c.out, c.in, 10, MPI_INT, MPI_OP_NULL, c.comm)}; }},
    {"bcast_root", [](auto& c) { return Codes{MPI_Bcast(c.in, 1, c.column, ranks, c.comm)}; }},
    {"bcast_count", [](auto& c) { return Codes{MPI_Bcast(c.in, -1, MPI_INT, 0, c.comm)}; }},
    {"bcast_no_comm",
     [](auto& c) { return Codes{MPI_Bcast(c.in, 10, MPI_INT, 0, MPI_COMM_NULL)}; }},
    {"ibcast_root",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Ibcast(c.in, 10, MPI_INT, ranks, c.comm, &request)};
     }},
    {"bcast_truncated",
     [](auto& c) {
         return Codes{MPI_Bcast(rank == 0 ? c.out : c.in, rank == 0 ? 40 : 20, MPI_INT, 0, c.comm)};
     }},
    {"allgather_no_type",
     [](auto& c) {
         return Codes{MPI_Allgather(c.out, 10, MPI_DATATYPE_NULL, c.in, 10, MPI_INT, c.comm)};
     }},
    {"allgatherv_counts",
     [](auto& c) {
         const std::vector<int> counts(ranks, -1), places(ranks, 0);
         return Codes{MPI_Allgatherv(c.out, 10, MPI_INT, c.in, counts.data(), places.data(),
                                     MPI_INT, c.comm)};
     }},
    {"allgatherv_no_counts",
     [](auto& c) {
         const std::vector<int> places(ranks, 0);
         return Codes{
             MPI_Allgatherv(c.out, 10, MPI_INT, c.in, nullptr, places.data(), MPI_INT, c.comm)};
     }},
    {"allgatherv_no_places",
     [](auto& c) {
         const std::vector<int> counts(ranks, 10);
         return Codes{
             MPI_Allgatherv(c.out, 10, MPI_INT, c.in, counts.data(), nullptr, MPI_INT, c.comm)};
     }},
    {"alltoallv_no_places",
     [](auto& c) {
         const std::vector<int> counts(ranks, 10);
         return Codes{MPI_Alltoallv(c.out, counts.data(), nullptr, MPI_INT, c.in, counts.data(),
                                    nullptr, MPI_INT, c.comm)};
     }},
    {"alltoallw_no_types",
     [](auto& c) {
         const std::vector<int> counts(ranks, 10), places(ranks, 0);
         return Codes{MPI_Alltoallw(c.out, counts.data(), places.data(), nullptr, c.in,
                                    counts.data(), places.data(), nullptr, c.comm)};
     }},
    {"alltoallw_null_types",
     [](auto& c) {
         const std::vector<int> counts(ranks, 10), places(ranks, 0);
         const std::vector<MPI_Datatype> types(ranks, MPI_DATATYPE_NULL);
         return Codes{MPI_Alltoallw(c.out, counts.data(), places.data(), types.data(), c.in,
                                    counts.data(), places.data(), types.data(), c.comm)};
     }},
    {"gather_root",
     [](auto& c) {
         return Codes{MPI_Gather(c.out, 10, MPI_INT, c.in, 10, MPI_INT, ranks, c.comm)};
     }},
    {"scatter_root",
     [](auto& c) {
         return Codes{MPI_Scatter(c.out, 10, MPI_INT, c.in, 10, MPI_INT, ranks, c.comm)};
     }},
    {"neighbours_none",
     [](auto& c) {
         return Codes{MPI_Neighbor_allgather(c.out, 10, MPI_INT, c.in, 10, MPI_INT, c.comm)};
     }},
};

const Case kPacking[] = {
    {"pack_beyond",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Pack(c.out, 1, c.column, c.in, 40, &at, c.comm),
                      at == 0 ? MPI_SUCCESS : MPI_ERR_OTHER};
     }},
    {"pack_count",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Pack(c.out, -1, c.column, c.in, 40, &at, c.comm)};
     }},
    {"pack_no_type",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Pack(c.out, 1, MPI_DATATYPE_NULL, c.in, 4000, &at, c.comm)};
     }},
    {"pack_no_comm",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Pack(c.out, 1, c.column, c.in, kBytes, &at, MPI_COMM_NULL)};
     }},
    {"pack_nowhere",
     [](auto& c) { return Codes{MPI_Pack(c.out, 1, c.column, c.in, kBytes, nullptr, c.comm)}; }},
    {"unpack_beyond",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Unpack(c.out, 40, &at, c.in, 1, c.column, c.comm),
                      at == 0 ? MPI_SUCCESS : MPI_ERR_OTHER};
     }},
    {"unpack_size",
     [](auto& c) {
         int at = 0;
         return Codes{MPI_Unpack(c.out, -1, &at, c.in, 1, c.column, c.comm)};
     }},
};

// Arguments of a one-sided call, right but for one of them.
struct OneSided {
    int rank, count = 10, displacement = 0;
    MPI_Datatype type, target_type;
    MPI_Op op = MPI_SUM;
    MPI_Win window;
    int target_count = 10;
};

struct OneSidedCall {
    const char* name;
    std::function<int(const Context&, const OneSided&, MPI_Request*)> make;
    bool single = false; // has one element of one type
    bool operates = false;
};

const OneSidedCall kOneSidedCalls[] = {
    {"put",
     [](auto& c, auto& a, auto) {
         return MPI_Put(c.out, a.count, a.type, a.rank, a.displacement, a.target_count,
                        a.target_type, a.window);
     }},
    {"get",
     [](auto& c, auto& a, auto) {
         return MPI_Get(c.in, a.count, a.type, a.rank, a.displacement, a.target_count,
                        a.target_type, a.window);
     }},
    {"accumulate",
     [](auto& c, auto& a, auto) {
         return MPI_Accumulate(c.out, a.count, a.type, a.rank, a.displacement, a.target_count,
                               a.target_type, a.op, a.window);
     },
     false, true},
    {"get_accumulate",
     [](auto& c, auto& a, auto) {
         return MPI_Get_accumulate(c.out, a.count, a.type, c.in, a.count, a.type, a.rank,
                                   a.displacement, a.target_count, a.target_type, a.op, a.window);
     },
     false, true},
    {"fetch_and_op",
     [](auto& c, auto& a, auto) {
         return MPI_Fetch_and_op(c.out, c.in, a.type, a.rank, a.displacement, a.op, a.window);
     },
     true, true},
    {"compare_and_swap",
     [](auto& c, auto& a, auto) {
         return MPI_Compare_and_swap(c.out, c.out + 1, c.in, a.type, a.rank, a.displacement,
                                     a.window);
     },
     true},
    {"rput",
     [](auto& c, auto& a, auto request) {
         return MPI_Rput(c.out, a.count, a.type, a.rank, a.displacement, a.target_count,
                         a.target_type, a.window, request);
     }},
    {"rget",
     [](auto& c, auto& a, auto request) {
         return MPI_Rget(c.in, a.count, a.type, a.rank, a.displacement, a.target_count,
                         a.target_type, a.window, request);
     }},
    {"raccumulate",
     [](auto& c, auto& a, auto request) {
         return MPI_Raccumulate(c.out, a.count, a.type, a.rank, a.displacement, a.target_count,
                                a.target_type, a.op, a.window, request);
     },
     false, true},
    {"rget_accumulate",
     [](auto& c, auto& a, auto request) {
         return MPI_Rget_accumulate(c.out, a.count, a.type, c.in, a.count, a.type, a.rank,
                                    a.displacement, a.target_count, a.target_type, a.op, a.window,
                                    request);
     },
     false, true},
};

struct OneSidedFault {
    const char* name;
    std::function<void(OneSided&)> spoil;
    bool of_several = false; // of calls that have counts
    bool of_operations = false;
};

const OneSidedFault kOneSidedFaults[] = {
    {"rank", [](auto& a) { a.rank = ranks; }},
    {"negative_rank", [](auto& a) { a.rank = -77; }},
    {"count", [](auto& a) { a.count = -1; }, true},
    {"target_count", [](auto& a) { a.target_count = -1; }, true},
    {"no_type", [](auto& a) { a.type = MPI_DATATYPE_NULL; }},
    {"no_target_type", [](auto& a) { a.target_type = MPI_DATATYPE_NULL; }, true},
    {"displacement", [](auto& a) { a.displacement = -3; }},
    {"no_window", [](auto& a) { a.window = MPI_WIN_NULL; }},
    {"freed_window",
     [](auto& a) {
         MPI_Win_create(nullptr, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &a.window);
         MPI_Win_free(&a.window);
         a.rank = 0;
     }},
    {"no_op", [](auto& a) { a.op = MPI_OP_NULL; }, false, true},
};

// Each call with each fault. A call that MPI takes in spite of it is completed.
std::vector<Case> one_sided_cases()
{
    std::vector<Case> cases;
    for (const OneSidedCall& call : kOneSidedCalls) {
        for (const OneSidedFault& fault : kOneSidedFaults) {
            if ((fault.of_several && call.single) || (fault.of_operations && !call.operates)) {
                continue;
            }
            cases.push_back(
                {std::string(call.name) + "_" + fault.name, [&](const Context& c) {
                     OneSided arguments{.rank = c.next,
                                        .type = MPI_INT,
                                        .target_type = MPI_INT,
                                        .window = c.window};
                     fault.spoil(arguments);
                     MPI_Request request = MPI_REQUEST_NULL;
                     const int result = call.make(c, arguments, &request);
                     Codes codes{result, request == MPI_REQUEST_NULL ? 0 : MPI_ERR_OTHER};
                     if (result == MPI_SUCCESS) {
                         MPI_Wait(&request, MPI_STATUS_IGNORE);
                         MPI_Win_flush_all(c.window);
                     }
                     return codes;
                 }});
        }
    }
    return cases;
}

constexpr int kUnwritten = 5000, kExposed = 7; // from there on each window holds that

const Case kOneSided[] = {
    {"put_column_rank",
     [](auto& c) { return Codes{MPI_Put(c.out, 1, c.column, ranks, 0, 1, c.column, c.window)}; }},
    {"put_column_count",
     [](auto& c) { return Codes{MPI_Put(c.out, -1, c.column, c.next, 0, 1, c.column, c.window)}; }},
    {"put_no_epoch",
     [](auto& c) { return Codes{MPI_Put(c.out, 1, c.few, c.next, 0, 1, c.few, c.unlocked)}; }},
    {"get_few_rank",
     [](auto& c) { return Codes{MPI_Get(c.in, 1, c.few, ranks, 0, 1, c.few, c.window)}; }},
    {"rget_few_rank",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Rget(c.in, 1, c.few, ranks, 0, 1, c.few, c.window, &request)};
     }},
    {"rget_freed", // MPI forbids that
     [](auto& c) {
         MPI_Request request;
         Codes codes{MPI_Rget(c.in, 1, c.column, c.next, 0, 1, c.column, c.window, &request)};
         codes.push_back(MPI_Request_free(&request));
         if (request != MPI_REQUEST_NULL) {
             codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         }
         codes.push_back(MPI_Win_flush(c.next, c.window));
         return codes;
     }},
    {"rput_uncommitted",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{
             MPI_Rput(c.out, 1, c.uncommitted, c.next, 0, 10, MPI_INT, c.window, &request)};
     }},
    {"raccumulate_no_epoch",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_Raccumulate(c.out, 10, MPI_INT, c.next, 0, 10, MPI_INT, MPI_SUM,
                                      c.unlocked, &request)};
     }},
    {"fetch_and_op_column",
     [](auto& c) {
         return Codes{MPI_Fetch_and_op(c.out, c.in, c.few, c.next, 0, MPI_SUM, c.window)};
     }},
    {"flush_rank", [](auto& c) { return Codes{MPI_Win_flush(ranks, c.window)}; }},
    {"flush_no_epoch", [](auto& c) { return Codes{MPI_Win_flush(c.next, c.unlocked)}; }},
    {"flush_after_error", // what was right before is complete
     [](auto& c) {
         Codes codes{MPI_Get(c.in, 1, c.few, c.next, 0, 1, c.few, c.window),
                     MPI_Get(c.in + 4000, 1, c.few, ranks, 0, 1, c.few, c.window),
                     MPI_Win_flush(c.next, c.window)};
         return codes;
     }},
    {"fence_in_locks", // what was begun before is not complete by it, but by the flush
     [](auto& c) {
         std::vector<int> values(kCount);
         if (rank == 0) { // MPICH's target answers when it is in MPI
             std::this_thread::sleep_for(std::chrono::milliseconds(20));
         }
         Codes codes{MPI_Get(c.in, 1, c.few, c.next, kUnwritten, 1, c.few, c.window),
                     MPI_Win_fence(0, c.window), MPI_Win_flush(c.next, c.window)};
         copy(values.data(), c.in);
         codes.push_back(std::ranges::count(values, kExposed) == 10 ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
};

const Case kFiles[] = {
    {"write_read_only",
     [](auto& c) {
         return Codes{MPI_File_write(c.read_only, c.out, 1, c.column, MPI_STATUS_IGNORE)};
     }},
    {"write_at_read_only",
     [](auto& c) {
         return Codes{MPI_File_write_at(c.read_only, 0, c.out, 10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"read_write_only",
     [](auto& c) {
         return Codes{MPI_File_read(c.write_only, c.in, 1, c.column, MPI_STATUS_IGNORE)};
     }},
    {"iread_write_only",
     [](auto& c) {
         MPI_Request request = MPI_REQUEST_NULL;
         return Codes{MPI_File_iread(c.write_only, c.in, 10, MPI_INT, &request)};
     }},
    {"read_all_write_only",
     [](auto& c) {
         return Codes{MPI_File_read_all(c.write_only, c.in, 10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"read_all_begin_write_only",
     [](auto& c) { return Codes{MPI_File_read_all_begin(c.write_only, c.in, 10, MPI_INT)}; }},
    {"write_closed",
     [](auto& c) {
         return Codes{MPI_File_write(MPI_FILE_NULL, c.out, 10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"write_count",
     [](auto& c) {
         return Codes{MPI_File_write(c.write_only, c.out, -10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"write_no_type",
     [](auto& c) {
         return Codes{
             MPI_File_write(c.write_only, c.out, 10, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE)};
     }},
    {"write_at_offset",
     [](auto& c) {
         return Codes{MPI_File_write_at(c.write_only, -50, c.out, 10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"write_full",
     [](auto& c) {
         return Codes{MPI_File_write_at(c.full, 0, c.out, 10, MPI_INT, MPI_STATUS_IGNORE)};
     }},
    {"read_end", // no error, and nothing is read
     [](auto& c) {
         MPI_Status status = status_of(0);
         int count = -1;
         Codes codes{MPI_File_read_at(c.read_only, 1 << 20, c.in, 10, MPI_INT, &status)};
         MPI_Get_count(&status, MPI_INT, &count);
         codes.push_back(count == 0 ? MPI_SUCCESS : MPI_ERR_OTHER);
         return codes;
     }},
    {"write_all_end_alone",
     [](auto& c) { return Codes{MPI_File_write_all_end(c.write_only, c.out, MPI_STATUS_IGNORE)}; }},
};

// Buffers of the case itself, which are freed.
const Case kFreed[] = {
    {"freed_send",
     [](auto& c) {
         int* freed = filled(1);
         release(freed);
         MPI_Request request;
         MPI_Irecv(c.in, 1, c.few, c.previous, 8, c.comm, &request);
         Codes codes{MPI_Send(freed, 1, c.few, c.next, 8, c.comm)};
         codes.push_back(MPI_Wait(&request, MPI_STATUS_IGNORE));
         return codes;
     }},
    {"freed_allreduce",
     [](auto& c) {
         int* freed = filled(1);
         release(freed);
         return Codes{MPI_Allreduce(c.out, freed, 100, MPI_INT, MPI_SUM, c.comm)};
     }},
    {"freed_before_wait",
     [](auto& c) {
         int* freed = filled(1);
         MPI_Request request;
         MPI_Irecv(freed, 1, c.few, c.previous, 8, c.comm, &request);
         release(freed);
         MPI_Send(c.out, 1, c.few, c.next, 8, c.comm);
         return Codes{MPI_Wait(&request, MPI_STATUS_IGNORE)};
     }},
    {"freed_before_wait_column",
     [](auto& c) {
         int* freed = filled(1);
         MPI_Request request;
         MPI_Irecv(freed, 1, c.column, c.previous, 8, c.comm, &request);
         release(freed);
         MPI_Send(c.out, 1, c.column, c.next, 8, c.comm);
         return Codes{MPI_Wait(&request, MPI_STATUS_IGNORE)};
     }},
    {"freed_before_start",
     [](auto& c) {
         int* freed = filled(1);
         MPI_Request requests[2];
         MPI_Send_init(freed, 1, c.column, c.next, 8, c.comm, &requests[0]);
         MPI_Send_init(freed, 1, c.few, c.next, 8, c.comm, &requests[1]);
         release(freed);
         Codes codes{MPI_Start(&requests[0]), MPI_Start(&requests[1])};
         codes.push_back(MPI_Request_free(&requests[0]));
         codes.push_back(MPI_Request_free(&requests[1]));
         return codes;
     }},
    {"freed_before_flush",
     [](auto& c) {
         int* freed = filled(1);
         MPI_Get_accumulate(c.out, 10, MPI_INT, freed, 10, MPI_INT, c.next, 0, 10, MPI_INT, MPI_SUM,
                            c.window);
         release(freed);
         return Codes{MPI_Win_flush(c.next, c.window)};
     }},
    {"beyond_allreduce",
     [](auto& c) { return Codes{MPI_Allreduce(c.out, c.in, 1 << 26, MPI_INT, MPI_SUM, c.comm)}; }},
    {"full_gpu", // a success: no memory for what kernels pack
     [](auto& c) {
         constexpr size_t kLong = 2 << 20;
         constexpr int kIntegers = kLong / sizeof(int);
         MPI_Datatype column;
         MPI_Type_vector(kIntegers / 4, 2, 4, MPI_INT, &column);
         MPI_Type_commit(&column);
         const std::vector<char> ones(kLong, 1);
         gpu::Bytes out(ones, on_gpu), in(std::vector<char>(kLong, 2), on_gpu);
         std::vector<void*> taken;
         for (size_t size = size_t{1} << 32; on_gpu && size >= 65536; size /= 2) {
             while (void* memory = gpu::try_to_allocate(size)) {
                 taken.push_back(memory);
             }
         }
         Codes codes{MPI_Sendrecv(out.data(), 1, column, c.next, 8, in.data(), 1, column,
                                  c.previous, 8, c.comm, MPI_STATUS_IGNORE)};
         for (void* memory : taken) {
             gpu::free(memory);
         }
         const auto received = static_cast<size_t>(std::ranges::count(in.bytes(), 1));
         codes.push_back(received == kLong / 2 ? MPI_SUCCESS : MPI_ERR_OTHER);
         MPI_Type_free(&column);
         return codes;
     }},
    {"freed_before_waitall",
     [](auto& c) {
         int* freed = filled(1);
         MPI_Request requests[2];
         MPI_Irecv(freed, 1, c.few, c.previous, 8, c.comm, &requests[0]);
         MPI_Irecv(c.in, 1, c.few, c.previous, 9, c.comm, &requests[1]);
         release(freed);
         MPI_Send(c.out, 1, c.few, c.next, 8, c.comm);
         MPI_Send(c.out, 1, c.few, c.next, 9, c.comm);
         return Codes{MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)};
     }},
};

std::vector<Case> all_cases()
{
    std::vector<Case> all;
    const auto add = [&all](const auto& some) {
        all.insert(all.end(), std::begin(some), std::end(some));
    };
    add(kMessages);
    add(kRequests);
    add(kEnds);
    add(kCollectives);
    add(kPacking);
    add(one_sided_cases());
    add(kOneSided);
    add(kFiles);
    add(kFreed);
    return all;
}

Context make_context()
{
    Context c;
    MPI_Errhandler handler, windows, files;
    MPI_Comm_create_errhandler(count_comm, &handler);
    MPI_Win_create_errhandler(count_window, &windows);
    MPI_File_create_errhandler(count_file, &files);
    MPI_Comm_dup(MPI_COMM_WORLD, &c.comm);
    for (MPI_Comm comm : {c.comm, MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Comm_set_errhandler(comm, handler);
    }
    MPI_File_set_errhandler(MPI_FILE_NULL, files); // of files that are opened from now on
    c.previous = (rank + ranks - 1) % ranks;
    c.next = (rank + 1) % ranks;
    MPI_Type_vector(2000, 2, 4, MPI_INT, &c.column);
    MPI_Type_commit(&c.column);
    MPI_Type_vector(10, 1, 2, MPI_INT, &c.few);
    MPI_Type_commit(&c.few);
    MPI_Type_vector(10, 1, 2, MPI_INT, &c.uncommitted);
    for (MPI_Win* window : {&c.window, &c.unlocked}) {
        static int memories[2][kCount];
        int* const memory = memories[window == &c.window];
        std::fill(memory + kUnwritten, memory + kCount, kExposed);
        MPI_Win_create(memory, kBytes, sizeof(int), MPI_INFO_NULL, c.comm, window);
        MPI_Win_set_errhandler(*window, windows);
    }
    MPI_Win_lock_all(0, c.window);
    std::string path = std::string(std::getenv("TMPDIR")) + "/mpi_errors";
    MPI_File_open(c.comm, path.c_str(), MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL,
                  &c.write_only);
    MPI_File_open(c.comm, path.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &c.read_only);
    MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &c.full);
    c.out = filled(1);
    c.in = filled(2);
    return c;
}

// Of what is the same for each rank.
bool works(const Context& c)
{
    int *out = filled(rank), *in = filled(-1);
    MPI_Sendrecv(out, 1, c.column, c.next, 1, in, 1, c.column, c.previous, 1, c.comm,
                 MPI_STATUS_IGNORE);
    std::vector<int> values(kCount);
    copy(values.data(), in);
    const bool received = std::ranges::count(values, c.previous) == 4000;
    const int result = MPI_Allreduce(out, in, kCount, MPI_INT, MPI_SUM, c.comm);
    const bool reduced = result == MPI_SUCCESS && holds(in, ranks * (ranks - 1) / 2);
    release(out);
    release(in);
    return received && reduced;
}

void try_case(const Case& tried, Context& c)
{
    const std::vector<int> out(kCount, 1), in(kCount, 2);
    copy(c.out, out.data());
    copy(c.in, in.data());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        std::printf("case: %s\n", tried.name.c_str());
    }
    std::fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD); // it is known by which case a rank dies
    handled = {};
    const Codes codes = tried.run(c);
    const Handled now = handled;
    std::string classes;
    for (int code : codes) {
        int of = -1;
        MPI_Error_class(code, &of);
        classes += (classes.empty() ? "" : ",") + std::to_string(of);
    }
    std::string changed;
    if (!holds(c.out, 1)) {
        changed += "+out";
    }
    if (!holds(c.in, 2)) {
        changed += "+in";
    }
    std::printf("%s rank=%d classes=%s handlers=%d,%d,%d,%d,%d changed=%s then=%s\n",
                tried.name.c_str(), rank, classes.c_str(), now.comm, now.world, now.self,
                now.window, now.file, changed.empty() ? "none" : changed.c_str(),
                works(c) ? "right" : "wrong");
    std::fflush(stdout);
}

void repeat(const std::vector<Case>& cases, const Context& c, int calls)
{
    const int each = static_cast<int>(cases.size());
    Growth::print(rank, calls / each, each, [&] {
        for (const Case& one : cases) {
            one.run(c);
        }
        MPI_Barrier(MPI_COMM_WORLD); // a rank's messages do not wait in another's memory
    });
}

} // namespace

int main(int argc, char** argv)
{
    const std::vector<Case> all = all_cases();
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const Case& one : all) {
            std::puts(one.name.c_str());
        }
        return 0;
    }
    if (argc < 2) {
        return 2;
    }
    on_gpu = std::strcmp(argv[1], "cuda") == 0;
    if (on_gpu) {
        gpu::use();
    }
    const bool repeats = argc > 3 && std::strcmp(argv[2], "--repeat") == 0;
    int threads = MPI_THREAD_SINGLE;
    std::vector<Case> chosen;
    for (int i = repeats ? 4 : 2; i < argc; ++i) {
        if (kOfAThread.name == argv[i]) {
            chosen.push_back(kOfAThread);
            threads = MPI_THREAD_SERIALIZED;
            continue;
        }
        const auto found =
            std::ranges::find_if(all, [&](const Case& one) { return one.name == argv[i]; });
        if (found == all.end()) {
            return 2;
        }
        chosen.push_back(*found);
    }
    MPI_Init_thread(&argc, &argv, threads, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Context context = make_context();
    if (repeats) {
        repeat(chosen, context, std::atoi(argv[3]));
    } else {
        for (const Case& one : chosen.empty() ? all : chosen) {
            try_case(one, context);
        }
    }
    // MPI_Finalize comes before their ends.
    MPI_Request left[2];
    MPI_Recv_init(context.in, 1, context.few, context.previous, 70, context.comm, &left[0]);
    MPI_Isend(context.out, 1, context.few, rank, 71, context.comm, &left[1]);
    MPI_Request_free(&left[1]);
    MPI_Recv(context.in, 1, context.few, rank, 71, context.comm, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(context.window);
    MPI_Win_free(&context.window); // with which all ranks wait for each other
    MPI_Win_free(&context.unlocked);
    MPI_Finalize();
    return 0;
}
