// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// mpi_short_sends [WAY [LIBRARY]]: messages of 8 bytes between all ranks, of host memory, and then
// from and into a GPU's, with a line after each part. The GPU's come first
//   as they are  without a way
//   own          after 8 bytes of GPU memory were sent by a UCX context of its own, by the
//   library's
//                send_from(memory), which returns 0
//   handle       as all other messages do, by functions of the MPI library's handle, after a file
//                was opened
//   window       as a window, by MPI_Get into host memory
//   offset       by a type whose bytes begin after its address, at which there is nothing
//   callback     in a callback of a call that the layer has a part in
// Exits with 1 where other bytes arrive, with 77 without a CUDA driver.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <mpi.h>
#include <sys/mman.h>

#include "gpu.hpp"

namespace {

constexpr int kMessages = 100;

int rank = 0, size = 0;
auto* start_receiving = MPI_Irecv;
auto* start_sending = MPI_Isend;
auto* wait_for_all = MPI_Waitall;

int to()
{
    return (rank + 1) % size;
}
int from()
{
    return (rank + size - 1) % size;
}

bool tell(const std::string& what, bool right)
{
    std::printf("%s: %s\n", what.c_str(), right ? "right" : "WRONG");
    std::fflush(stdout);
    return right;
}

bool exchange(uint64_t* sent, uint64_t* received, bool on_gpu)
{
    bool right = true;
    for (uint64_t i = 0; i < kMessages; ++i) {
        const uint64_t mine = i * size + rank, wanted = i * size + from();
        uint64_t came = 0;
        MPI_Request requests[2];
        on_gpu ? gpu::copy(sent, &mine, sizeof(mine)) : void(*sent = mine);
        start_receiving(received, 1, MPI_UINT64_T, from(), 5, MPI_COMM_WORLD, &requests[0]);
        start_sending(sent, 1, MPI_UINT64_T, to(), 5, MPI_COMM_WORLD, &requests[1]);
        wait_for_all(2, requests, MPI_STATUSES_IGNORE);
        on_gpu ? gpu::copy(&came, received, sizeof(came)) : void(came = *received);
        right = right && came == wanted;
    }
    return tell(on_gpu ? "GPU memory" : "host memory", right);
}

// The neighbour's number, sent as one element of this type.
uint64_t pass_on(const void* buffer, MPI_Datatype type)
{
    uint64_t came = 0;
    MPI_Request request;
    MPI_Irecv(&came, 1, MPI_UINT64_T, from(), 5, MPI_COMM_WORLD, &request);
    MPI_Send(buffer, 1, type, to(), 5, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return came;
}

template <class Function>
Function* function_of(const char* library, const char* name)
{
    void* const handle = dlopen(library, RTLD_NOW);
    return reinterpret_cast<Function*>(handle == nullptr ? nullptr : dlsym(handle, name));
}

void call_by_handle(const char* library)
{
    start_receiving = function_of<decltype(MPI_Irecv)>(library, "MPI_Irecv");
    start_sending = function_of<decltype(MPI_Isend)>(library, "MPI_Isend");
    wait_for_all = function_of<decltype(MPI_Waitall)>(library, "MPI_Waitall");
    const char* directory = std::getenv("TMPDIR");
    const std::string name = std::string(directory == nullptr ? "/tmp" : directory) + "/file";
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) == MPI_SUCCESS) {
        MPI_File_close(&file);
    }
}

bool get_from_window(uint64_t* memory)
{
    const uint64_t mine = 7000 + rank;
    uint64_t came = 0;
    gpu::copy(memory, &mine, sizeof(mine));
    MPI_Win window;
    MPI_Win_create(memory, sizeof(*memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Get(&came, 1, MPI_UINT64_T, from(), 0, 1, MPI_UINT64_T, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    return tell("window", came == 7000u + from());
}

bool send_with_offset(uint64_t* memory)
{
    const uint64_t mine = 8000 + rank;
    gpu::copy(memory, &mine, sizeof(mine));
    void* const nothing =
        mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const int length = 1;
    const MPI_Aint at = reinterpret_cast<char*>(memory) - static_cast<char*>(nothing);
    MPI_Datatype type;
    MPI_Type_create_hindexed(1, &length, &at, MPI_UINT64_T, &type);
    MPI_Type_commit(&type);
    const uint64_t came = pass_on(nothing, type);
    MPI_Type_free(&type);
    munmap(nothing, 4096);
    return tell("offset", came == 8000u + from());
}

bool duplicate(uint64_t* memory)
{
    const uint64_t mine = 9000 + rank;
    uint64_t came = 0;
    gpu::copy(memory, &mine, sizeof(mine));
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(
        [](MPI_Comm, int, void* memory, void* came, void*, int* flag) {
            *flag = 0;
            *static_cast<uint64_t*>(came) = pass_on(memory, MPI_UINT64_T);
            return MPI_SUCCESS;
        },
        MPI_COMM_NULL_DELETE_FN, &key, memory);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &came);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Comm copy;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy);
    MPI_Comm_free(&copy);
    MPI_Info_free(&info);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    return tell("callback", came == 9000u + from());
}

bool send_by(const char* library, const void* memory)
{
    auto* const send_from = function_of<int(const void*)>(library, "send_from");
    return tell("own context", send_from != nullptr && send_from(memory) == 0);
}

} // namespace

int main(int argc, char** argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::string way = argc > 1 ? argv[1] : "";
    if (way == "handle") {
        call_by_handle(argv[2]);
    }
    uint64_t sent = 0, received = 0;
    bool right = exchange(&sent, &received, false);
    gpu::use();
    auto* const memory = static_cast<uint64_t*>(gpu::allocate(2 * sizeof(uint64_t)));
    if (way == "own") {
        right = send_by(argv[2], memory) && right;
    }
    if (way == "window") {
        right = get_from_window(memory) && right;
    }
    if (way == "offset") {
        right = send_with_offset(memory) && right;
    }
    if (way == "callback") {
        right = duplicate(memory) && right;
    }
    right = exchange(&memory[0], &memory[1], true) && right;
    right = exchange(&sent, &received, false) && right;
    gpu::free(memory);
    MPI_Finalize();
    return right ? 0 : 1;
}
