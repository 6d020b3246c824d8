// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_info: what the info of communicators, windows, files and a session tells of memory
// (mpi_memory_alloc_kinds), that calls work with the memory of each kind, and which communicators
// have their collective calls made by the GPUs (gdr_mpi_coll). Exits with 1, and a line for each,
// where that is not so; with 77 without a CUDA driver. An argument: a directory for a file; or
// --own, where MPI is to know nothing of CUDA.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <mpi.h>

#include "gpu.hpp"

namespace {

int rank, ranks, failed;

[[gnu::format(printf, 2, 3)]] void expect(bool good, const char* what, ...)
{
    if (good) {
        return;
    }
    va_list arguments;
    va_start(arguments, what);
    std::printf("FAILED: rank %d: ", rank);
    std::vprintf(what, arguments);
    std::printf("\n");
    va_end(arguments);
    failed = 1;
}

// The value of an info that MPI has just given us, which is freed.
std::string kinds(int result, MPI_Info info)
{
    char value[256] = "nothing";
    int found = 0;
    if (result == MPI_SUCCESS) {
        MPI_Info_get(info, "mpi_memory_alloc_kinds", sizeof(value) - 1, value, &found);
        MPI_Info_free(&info);
    }
    return value;
}

void expect_kinds(const char* object, const std::string& found, const std::string& wanted)
{
    expect(found == wanted, "%s: %s, not %s", object, found.c_str(), wanted.c_str());
}

MPI_Info info_of(const char* key, const char* value)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    return info;
}

void memory_kinds(const std::string& directory)
{
    const std::string all = "system,mpi,cuda,cuda:device,cuda:host,cuda:managed";
#ifdef MPICH_VERSION
    const std::string of_windows = "system,mpi,cuda:host"; // see docs/reference/mpi-calls.md
#else
    const std::string of_windows = all;
#endif
    MPI_Info info;
    int result = MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    expect_kinds("the world", kinds(result, info), all);
    result = PMPI_Comm_get_info(MPI_COMM_SELF, &info); // as Open MPI's Fortran calls it
    expect_kinds("MPI_COMM_SELF", kinds(result, info), all);

    MPI_Info asserted = info_of("mpi_assert_memory_alloc_kinds", "cuda:device");
    MPI_Comm comm;
    expect(MPI_Comm_dup_with_info(MPI_COMM_WORLD, asserted, &comm) == MPI_SUCCESS, "not accepted");
    expect(MPI_Comm_set_info(comm, asserted) == MPI_SUCCESS, "not accepted later");
    result = MPI_Comm_get_info(comm, &info);
    expect_kinds("a communicator", kinds(result, info), all);
    MPI_Comm_free(&comm);

    void* memory = gpu::allocate(4096);
    MPI_Win window;
    MPI_Win_create(memory, 4096, 1, asserted, MPI_COMM_WORLD, &window);
    result = MPI_Win_get_info(window, &info);
    expect_kinds("a window", kinds(result, info), of_windows);
    MPI_Win_free(&window);
    gpu::free(memory);

    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, (directory + "/info").c_str(),
                  MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, asserted, &file);
    result = MPI_File_get_info(file, &info);
    expect_kinds("a file", kinds(result, info), all);
    MPI_File_close(&file);
    MPI_Info_free(&asserted);

#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Info requested = info_of("mpi_memory_alloc_kinds", "cuda:device");
    MPI_Session_init(requested, MPI_ERRORS_RETURN, &session);
    MPI_Info_free(&requested);
    result = MPI_Session_get_info(session, &info);
    expect_kinds("a session", kinds(result, info), all);
    MPI_Session_finalize(&session);
#endif
    // An error is the library's own.
    expect(MPI_Comm_get_info(MPI_COMM_NULL, &info) != MPI_SUCCESS, "MPI_COMM_NULL has an info");
}

void* device_memory(size_t bytes)
{
    return gpu::allocate(bytes);
}
void* managed_memory(size_t bytes)
{
    CUdeviceptr address = 0;
    gpu::check(gpu::driver<CUresult (*)(CUdeviceptr*, size_t, unsigned)>("cuMemAllocManaged")(
        &address, bytes, CU_MEM_ATTACH_GLOBAL));
    return reinterpret_cast<void*>(address);
}
void* pinned_memory(size_t bytes)
{
    void* address = nullptr;
    gpu::check(gpu::driver<CUresult (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(
        &address, bytes, CU_MEMHOSTALLOC_PORTABLE));
    return address;
}

// A ring of messages, a reduction, and a file: none of them dies, and the numbers arrive.
void use_memory(const char* kind, void* (*allocate)(size_t))
{
    for (const int count : {10, 50000}) {
        const size_t bytes = count * sizeof(int);
        int* const out = static_cast<int*>(allocate(bytes));
        int* const in = static_cast<int*>(allocate(bytes));
        std::vector<int> numbers(count, rank + 1);
        gpu::copy(out, numbers.data(), bytes);
        MPI_Sendrecv(out, count, MPI_INT, (rank + 1) % ranks, 7, in, count, MPI_INT,
                     (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        gpu::copy(numbers.data(), in, bytes);
        expect(numbers[count - 1] == (rank + ranks - 1) % ranks + 1, "%s: a message", kind);
        MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        gpu::copy(numbers.data(), in, bytes);
        expect(numbers[count - 1] == ranks * (ranks + 1) / 2, "%s: a sum", kind);
    }
}

// Whether a sum on that communicator is right; a rank of its choice passes host memory.
void sum(MPI_Comm comm, int on_host)
{
    constexpr int kCount = 1 << 18;
    std::vector<int> numbers(kCount, rank + 1), result(kCount);
    gpu::Bytes in(std::vector<char>(kCount * sizeof(int)), true);
    gpu::copy(in.data(), numbers.data(), kCount * sizeof(int));
    gpu::Bytes out(std::vector<char>(kCount * sizeof(int)), true);
    if (rank == on_host) {
        MPI_Allreduce(numbers.data(), result.data(), kCount, MPI_INT, MPI_SUM, comm);
    } else {
        MPI_Allreduce(in.data(), out.data(), kCount, MPI_INT, MPI_SUM, comm);
        gpu::copy(result.data(), out.data(), kCount * sizeof(int));
    }
    expect(result[kCount - 1] == ranks * (ranks + 1) / 2, "a sum is %d", result[kCount - 1]);
}

// Calls by the GPUs, of 2^20 bytes each, where the program's choice is to stage. Returns how many.
int hints()
{
    int by_gpus = 4;
    constexpr int kNone = -1;
    MPI_Info gpu = info_of("gdr_mpi_coll", "gpu"), stage = info_of("gdr_mpi_coll", "stage");
    MPI_Info nonsense = info_of("gdr_mpi_coll", "sideways");
    sum(MPI_COMM_WORLD, kNone);
    MPI_Comm comm, copy, other;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, gpu, &comm);
    sum(comm, kNone);     // by the GPUs
    sum(comm, ranks - 1); // the others agree to stage
    sum(MPI_COMM_WORLD, kNone);
    MPI_Comm_dup(comm, &copy);
    sum(copy, kNone); // by the GPUs
    MPI_Comm_free(&copy);
    MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &other);
    sum(other, kNone);
    MPI_Comm_set_info(other, nonsense);
    sum(other, kNone);
    MPI_Comm_set_info(other, gpu);
    sum(other, kNone); // by the GPUs
    MPI_Comm_set_info(comm, stage);
    sum(comm, kNone);
    MPI_Comm_set_info(comm, gpu);
    sum(comm, kNone); // by the GPUs
#if MPI_VERSION >= 4
    MPI_Comm later, plain;
    MPI_Request requests[2];
    MPI_Comm_idup_with_info(other, stage, &plain, &requests[0]);
    MPI_Comm_idup_with_info(MPI_COMM_WORLD, gpu, &later, &requests[1]);
    sum(MPI_COMM_WORLD, kNone);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    sum(later, kNone); // by the GPUs
    sum(plain, kNone);
    sum(other, kNone); // by the GPUs
    MPI_Comm_free(&plain);
    MPI_Comm_idup_with_info(later, MPI_INFO_NULL, &plain, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    sum(plain, kNone);
    sum(later, kNone); // by the GPUs
    by_gpus += 3;
    MPI_Comm_free(&plain);
    MPI_Comm_free(&later);
    expect(MPI_Comm_idup_with_info(MPI_COMM_NULL, gpu, &later, &requests[0]) != MPI_SUCCESS,
           "a copy of MPI_COMM_NULL");
#endif
    expect(MPI_Comm_dup_with_info(MPI_COMM_NULL, gpu, &copy) != MPI_SUCCESS,
           "a copy of MPI_COMM_NULL");
    for (MPI_Comm* made : {&comm, &other}) {
        MPI_Comm_free(made);
    }
    for (MPI_Info* info : {&gpu, &stage, &nonsense}) {
        MPI_Info_free(info);
    }
    return by_gpus;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 2) {
        return 2;
    }
    const std::string argument = argv[1];
    if (argument == "--own") {
        MPI_Init(&argc, &argv);
        MPI_Info info;
        const int result = MPI_Comm_get_info(MPI_COMM_WORLD, &info);
        expect(kinds(result, info).find("cuda") == std::string::npos, "CUDA without the layer");
        MPI_Finalize();
        return failed;
    }
    gpu::use();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    memory_kinds(argument);
    use_memory("cuda:device", device_memory);
    use_memory("cuda:host", pinned_memory);
    use_memory("cuda:managed", managed_memory);
    const int by_gpus = hints();
    MPI_Finalize();
    if (failed == 0) {
        std::printf("rank %d: ok, %d calls by the GPUs\n", rank, by_gpus);
    }
    return failed;
}
