// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_callbacks host|cuda: functions that MPI calls back make calls of their own on such memory, in
// calls that the layer serves where it is a GPU's: what generalized requests ask, what copies and
// deletes attributes, error handlers, reductions. Every element is checked. Exits with 0, with 1
// when one is wrong, with 77 without a CUDA driver.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include "gpu.hpp"

namespace {

constexpr int kCount = 10000;

int rank, ranks, failed;

std::vector<int> numbers(int first)
{
    std::vector<int> all(kCount);
    for (int i = 0; i < kCount; ++i) {
        all[i] = first + i;
    }
    return all;
}

bool on_gpu;

class Array {
  public:
    explicit Array(int first)
        : memory_(static_cast<int*>(on_gpu ? gpu::allocate(kBytes) : std::malloc(kBytes)))
    {
        move(memory_, numbers(first).data());
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { on_gpu ? gpu::free(memory_) : std::free(memory_); }

    int* data() { return memory_; }
    // each: times what it was made of, and more by so much.
    void expect(const char* where, int first, int times = 1)
    {
        std::vector<int> found(kCount);
        move(found.data(), memory_);
        int wrong = 0;
        for (int i = 0; i < kCount; ++i) {
            wrong += found[i] != times * (first + i);
        }
        if (wrong == 0) {
            return;
        }
        std::printf("rank %d: %s: %d elements are wrong\n", rank, where, wrong);
        failed = 1;
    }

  private:
    static constexpr size_t kBytes = sizeof(int) * kCount;
    static void move(int* to, const int* from)
    {
        on_gpu ? gpu::copy(to, from, kBytes) : static_cast<void>(std::memcpy(to, from, kBytes));
    }

    int* memory_;
};

void reduce(const char* where, MPI_Comm comm)
{
    int size = 0;
    MPI_Comm_size(comm, &size);
    Array in(7), out(0);
    MPI_Allreduce(in.data(), out.data(), kCount, MPI_INT, MPI_SUM, comm);
    out.expect(where, 7, size);
}

// A message of the rank to itself, which is staged, by requests.
struct Message {
    Array out{1}, in{0};
    MPI_Request received = MPI_REQUEST_NULL, sent = MPI_REQUEST_NULL;

    explicit Message(int tag)
    {
        MPI_Irecv(in.data(), kCount, MPI_INT, 0, tag, MPI_COMM_SELF, &received);
        MPI_Isend(out.data(), kCount, MPI_INT, 0, tag, MPI_COMM_SELF, &sent);
    }
    bool test()
    {
        int done = 0, also = 0;
        MPI_Test(&sent, &done, MPI_STATUS_IGNORE);
        MPI_Test(&received, &also, MPI_STATUS_IGNORE);
        return done != 0 && also != 0;
    }
    void wait(const char* where)
    {
        while (!test()) {
        }
        in.expect(where, 1);
    }
};

int query(void* message, MPI_Status* status)
{
    if (message != nullptr) {
        static_cast<Message*>(message)->wait("a request's query function");
    }
    reduce("a request's query function", MPI_COMM_SELF);
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
int forget(void*)
{
    return MPI_SUCCESS;
}
int cancel(void*, int)
{
    return MPI_SUCCESS;
}

void ask()
{
    Message message(1);
    MPI_Request request;
    MPI_Grequest_start(query, forget, cancel, &message, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    message.in.expect("after a request's query function", 1);
}

// MPICH's extension: a request that is polled as MPI makes progress, by any call.
struct Polled {
    Message message{2};
    MPI_Request request = MPI_REQUEST_NULL;
    bool completed = false;
};

int ask_once(void* extra, MPI_Status*)
{
    auto* const polled = static_cast<Polled*>(extra);
    if (!polled->completed && polled->message.test()) {
        polled->completed = true;
        MPI_Grequest_complete(polled->request);
    }
    return MPI_SUCCESS;
}
int ask_until_complete(int count, void** extra, double, MPI_Status*)
{
    for (int i = 0; i < count; ++i) {
        while (!static_cast<Polled*>(extra[i])->completed) {
            ask_once(extra[i], nullptr);
        }
    }
    return MPI_SUCCESS;
}

void poll()
{
    using Start = int (*)(MPI_Grequest_query_function*, MPI_Grequest_free_function*,
                          MPI_Grequest_cancel_function*, int (*)(void*, MPI_Status*),
                          int (*)(int, void**, double, MPI_Status*), void*, MPI_Request*);
    const auto start = reinterpret_cast<Start>(dlsym(RTLD_DEFAULT, "MPIX_Grequest_start"));
    if (start == nullptr) {
        return;
    }
    Polled polled;
    // Freed before it is complete: the layer asks for it whenever a call ends.
    Array out(3), in(0);
    MPI_Request freed, sent;
    MPI_Irecv(in.data(), kCount, MPI_INT, 0, 3, MPI_COMM_SELF, &freed);
    MPI_Request_free(&freed);
    start([](void*, MPI_Status* status) { return query(nullptr, status); }, forget, cancel,
          ask_once, ask_until_complete, &polled, &polled.request);
    MPI_Wait(&polled.request, MPI_STATUS_IGNORE);
    polled.message.in.expect("a request's poll function", 1);
    MPI_Isend(out.data(), kCount, MPI_INT, 0, 3, MPI_COMM_SELF, &sent);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    reduce("after a request was freed", MPI_COMM_SELF);
    in.expect("a request that was freed", 3);
}

void copy_and_delete()
{
    int of_comm = 0, of_window = 0;
    MPI_Comm_create_keyval(
        [](MPI_Comm comm, int, void*, void*, void*, int* flag) {
            reduce("an attribute's copy function", comm);
            *flag = 0;
            return MPI_SUCCESS;
        },
        MPI_COMM_NULL_DELETE_FN, &of_comm, nullptr);
    MPI_Comm_set_attr(MPI_COMM_WORLD, of_comm, nullptr);
    MPI_Comm copy;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy);
    MPI_Info_free(&info);
    reduce("a communicator with a copy function", copy);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, of_comm);

    MPI_Win_create_keyval(
        MPI_WIN_NULL_COPY_FN,
        [](MPI_Win, int, void*, void*) {
            reduce("an attribute's delete function", MPI_COMM_WORLD);
            return MPI_SUCCESS;
        },
        &of_window, nullptr);
    std::vector<int> memory = numbers(5);
    MPI_Win window, other;
    MPI_Win_create(memory.data(), sizeof(int) * kCount, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF,
                   &window);
    MPI_Win_create(nullptr, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_set_attr(other, of_window, nullptr);
    Array in(0);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(in.data(), kCount, MPI_INT, 0, 0, kCount, MPI_INT, window); // staged
    MPI_Win_free(&other);
    MPI_Win_unlock(0, window);
    in.expect("what was got meanwhile", 5);
    MPI_Win_free(&window);
}

void on_error(MPI_Comm*, int*, ...)
{
    reduce("an error handler", MPI_COMM_SELF);
}

void handle_error()
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    Array in(0), out(0);
    if (MPI_Allreduce(in.data(), out.data(), kCount, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD) ==
        MPI_SUCCESS) {
        std::printf("rank %d: no error\n", rank);
        failed = 1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
}

void add(void* in, void* inout, int* count, MPI_Datatype*)
{
    reduce("a reduction", MPI_COMM_SELF);
    for (int i = 0; i < *count; ++i) {
        static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
    }
}

void reduce_by_own()
{
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    Array in(7), out(0);
    MPI_Allreduce(in.data(), out.data(), kCount, MPI_INT, op, MPI_COMM_WORLD);
    out.expect("an operation of the program's", 7, ranks);
    MPI_Op_free(&op);
}

} // namespace

int main(int argc, char** argv)
{
    on_gpu = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    if (on_gpu) {
        gpu::use(gpu::rank_in_job());
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 3; ++i) {
        ask();
        poll();
        copy_and_delete();
        handle_error();
        reduce_by_own();
    }
    MPI_Finalize();
    return failed;
}
