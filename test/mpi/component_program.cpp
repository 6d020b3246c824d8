// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// component_program LIBRARY COMPONENT [refused|6.0]: the functions that an Open MPI, or what
// fake_open_pal.cpp makes of one, gets of the accelerator component: before CUDA is initialised,
// with it, and in a forked child. refused: it gets none. 6.0: those of that series, beside the
// library's own. Reports in TAP.
#include "gpu.hpp"
#include "openmpi/series_6_0.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

using namespace gdr::openmpi;

namespace {

int cases = 0;
bool failed = false;
Module* component = nullptr;

void expect(bool condition, const char* what)
{
    std::printf("%s %d - %s\n", condition ? "ok" : "not ok", ++cases, what);
    failed |= !condition;
}

int kind(const void* address)
{
    int device = 0;
    uint64_t flags = 1;
    return component->check_addr(address, &device, &flags);
}

// Of the fastest of many rounds.
double nanoseconds(const void* address)
{
    using Clock = std::chrono::steady_clock;
    double least = 1e9;
    for (int round = 0; round < 200; ++round) {
        const auto start = Clock::now();
        for (int call = 0; call < 1000; ++call) {
            kind(address);
        }
        least = std::min(
            least, std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 1000);
    }
    return least;
}

void expect_cheap(const void* address, const char* what)
{
    const double time = nanoseconds(address);
    std::printf("%s: %.1f ns\n", what, time);
    if (std::getenv("COMPONENT_TIMES") != nullptr) {
        expect(time <= 30, what);
    }
}

// As OBJ_RELEASE of the last reference.
void release(Object* object)
{
    for (auto* destruct = object->obj_class->cls_destruct_array; *destruct != nullptr; ++destruct) {
        (*destruct)(object);
    }
    std::free(object);
}

bool copy(void* to, const void* from, size_t length)
{
    return component->mem_copy(kNoDevice, kNoDevice, to, from, length, kUnspecified) == kSuccess;
}

bool move(void* to, const void* from, size_t length)
{
    return component->mem_move(kNoDevice, kNoDevice, to, from, length, kUnspecified) == kSuccess;
}

void without_cuda(Stream*& stream, Event*& event)
{
    int local = 1, to = 0, device = 0;
    void* memory = nullptr;
    expect(kind(&local) == 0, "all is host memory");
    expect(copy(&to, &local, sizeof(to)) && to == 1, "which is copied by the CPU");
    expect(component->create_stream(kNoDevice, &stream) == kSuccess &&
               stream->super.obj_reference_count == 1,
           "streams can be made");
    expect(component->create_event(kNoDevice, &event) == kSuccess, "and events");
    expect(component->record_event(kNoDevice, event, stream) == kSuccess &&
               component->query_event(kNoDevice, event) == kSuccess,
           "which have happened");
    expect(component->mem_alloc(kNoDevice, &memory, 8) == kError, "there is no memory of a GPU");
    expect(component->get_device(&device) == kError, "nor a current one");
    expect_cheap(&local, "a look-up before CUDA is in use");
    int count = 0;
    expect(gpu::driver<CUresult (*)(int*)>("cuDeviceGetCount")(&count) ==
               CUDA_ERROR_NOT_INITIALIZED,
           "and CUDA has not been initialised by all this");
}

void memory()
{
    constexpr size_t kLength = 100000;
    std::vector<char> host(kLength), back(kLength);
    std::iota(host.begin(), host.end(), '\0');
    void* allocated = nullptr;
    expect(component->mem_alloc(kNoDevice, &allocated, kLength) == kSuccess,
           "memory of the current GPU");
    auto* const bytes = static_cast<char*>(allocated);

    int device = 7, on = 8;
    uint64_t flags = 9;
    expect(component->check_addr(bytes + kLength - 1, &device, &flags) == 1 && flags == 0,
           "is known");
    expect(component->get_device(&on) == kSuccess && on == device, "with its GPU");
    expect(kind(host.data()) == 0 && kind(&device) == 0 && kind(nullptr) == 0,
           "other memory is the host's");
    expect_cheap(&device, "a look-up of a variable with CUDA in use");

    expect(copy(bytes, host.data(), kLength) && copy(back.data(), bytes, kLength) && back == host,
           "to it and back");
    expect(copy(bytes + kLength / 2, bytes, kLength / 2) && copy(back.data(), bytes, kLength) &&
               std::equal(back.begin() + kLength / 2, back.end(), host.begin()),
           "within it");
    for (const int by : {1, -1, 1000, -1000}) {
        copy(bytes, host.data(), kLength);
        const size_t from = 2000, length = kLength - 4000;
        expect(move(bytes + from + by, bytes + from, length) && copy(back.data(), bytes, kLength) &&
                   std::memcmp(&back[from + by], &host[from], length) == 0 &&
                   std::memcmp(back.data(), host.data(), std::min(from, from + by)) == 0,
               "within it, overlapping");
    }
    void* base = nullptr;
    size_t length = 0;
    uint64_t id = 0, next = 0;
    expect(component->get_address_range(kNoDevice, bytes + 5, &base, &length) == kSuccess &&
               base == allocated && length >= kLength,
           "its range");
    expect(component->get_buffer_id(kNoDevice, bytes + 5, &id) == kSuccess && id != 0,
           "its identity");
    expect(component->mem_release(kNoDevice, allocated) == kSuccess, "it is freed");
    component->mem_alloc(kNoDevice, &allocated, kLength);
    expect(component->get_buffer_id(kNoDevice, allocated, &next) == kSuccess && next != id,
           "and what comes in its place is another");
    component->mem_release(kNoDevice, allocated);
    expect(component->mem_release(kNoDevice, nullptr) == kSuccess, "nothing is freed");

    expect(component->host_unregister(kNoDevice, host.data()) == kBadParameter,
           "what was not pinned");
    expect(component->host_register(kNoDevice, host.data(), kLength) == kSuccess, "is pinned");
    expect(kind(host.data()) == 0, "host memory as before");
    expect(component->host_unregister(kNoDevice, host.data()) == kSuccess, "and unpinned");
}

void streams(Stream* stream, Event* event)
{
    std::vector<char> host(4096, 'x'), back(4096);
    void* allocated = nullptr;
    component->mem_alloc(kNoDevice, &allocated, host.size());
    const auto async = [&](void* to, const void* from) {
        return component->mem_copy_async(kNoDevice, kNoDevice, to, from, host.size(), stream,
                                         kUnspecified) == kSuccess;
    };
    expect(async(allocated, host.data()) && async(back.data(), allocated) &&
               component->record_event(kNoDevice, event, stream) == kSuccess,
           "copies on a stream");
    int result = kResourceBusy;
    while (result == kResourceBusy) {
        result = component->query_event(kNoDevice, event);
    }
    expect(result == kSuccess && back == host, "which the event tells the end of");
    component->mem_release(kNoDevice, allocated);
    release(&event->super);
    release(&stream->super);
}

void devices()
{
    int access = 7;
    PciAttributes pci = {};
    expect(component->get_device_pci_attr(0, &pci) == kSuccess, "the GPU's place");
    expect(component->device_can_access_peer(&access, 0, 0) == kSuccess || access == 7,
           "and its peers");
    expect(component->get_device_pci_attr(1000, &pci) == kError,
           "a GPU that is not there is an error");
}

void in_a_child()
{
    void* allocated = nullptr;
    component->mem_alloc(kNoDevice, &allocated, 4096);
    const pid_t child = fork();
    if (child == 0) {
        _exit(kind(allocated) == 0 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    expect(status == 0, "in a forked child, where CUDA does not work, all is host memory");
    component->mem_release(kNoDevice, allocated);
}

void module_of_6(void* library, const Module6& functions)
{
    const auto* null = static_cast<const Module6*>(dlsym(library, "opal_accelerator_null_module"));
    expect(functions.create_stream == null->create_stream &&
               functions.get_memkind == null->get_memkind,
           "the null component's functions stay where there are none of ours");
    gpu::use();
    void* allocated = nullptr;
    int devices = 0, device = 0;
    uint64_t flags = 0, there = 7, back = 0;
    expect(functions.num_devices(&devices) == kSuccess && devices > 0, "the GPUs are counted");
    expect(functions.mem_alloc(kNoDevice, &allocated, 4096) == kSuccess &&
               functions.check_addr(allocated, &device, &flags) > 0,
           "memory of the GPU is known");
    expect(functions.mem_copy(kNoDevice, kNoDevice, allocated, &there, sizeof(there),
                              kHostToDevice) == kSuccess &&
               functions.mem_copy_async(kNoDevice, kNoDevice, &back, allocated, sizeof(back),
                                        nullptr, kDeviceToHost) == kSuccess &&
               back == there,
           "and copied");
    expect(functions.mem_release(kNoDevice, allocated) == kSuccess, "and released");
}

} // namespace

int main(int, char** arguments)
{
    void* const library = dlopen(arguments[1], RTLD_NOW);
    if (library == nullptr) {
        return std::fprintf(stderr, "%s\n", dlerror()), 99;
    }
    component =
        reinterpret_cast<Module* (*)(const char*)>(dlsym(library, "fake_select"))(arguments[2]);
    const std::string_view mode = arguments[3] != nullptr ? arguments[3] : "";
    const bool refused = mode == "refused";
    expect((component == nullptr) == refused,
           refused ? "the component is left out" : "the component is taken");
    if (component != nullptr && mode == "6.0") {
        module_of_6(library, *reinterpret_cast<Module6*>(component));
    } else if (component != nullptr && !refused) {
        Stream* stream = nullptr;
        Event* event = nullptr;
        without_cuda(stream, event);
        gpu::use();
        memory();
        streams(stream, event);
        devices();
        in_a_child();
    }
    std::printf("1..%d\n", cases);
    return failed ? 1 : 0;
}
