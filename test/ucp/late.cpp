// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_late: a program that uses UCX for host memory, and CUDA later or never. Until it does nobody
// has initialised CUDA in its process, and no GPU has a context that the program did not make. On
// the emulated driver alone, which counts.
//
//   ucp_late never     CUDA is never used
//   ucp_late unloaded  nor is the driver's library in the process
//   ucp_late fork      by a forked child
//   ucp_late visible   once CUDA_VISIBLE_DEVICES has been set
//   ucp_late second    on the second GPU; the first never has a context
//   ucp_late context   in a context of the program's own
//   ucp_late peer      never in one process, whose peer transfers GPU memory to and from it
//   ucp_late messages  and its memory transferred by endpoints that were connected before
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/emulation.hpp"
#include "support/endpoints.hpp"
#include "support/failure.hpp"
#include "support/ranks.hpp"
#include "support/report.hpp"
#include "support/worker.hpp"

namespace ucptest {
namespace {

constexpr ucp_tag_t kTag = 0x10;
constexpr size_t kSizes[] = {1, 8, 100, 4096, 65536, 1 << 20};
constexpr size_t kLargest = 1 << 20;

template <typename Function>
Function* driver(const char* name)
{
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    require(library != nullptr, "no libcuda.so.1");
    auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
    require(function != nullptr, name);
    return function;
}

void check(CUresult result, const char* call)
{
    require(result == CUDA_SUCCESS, format("%s: CUDA error %d", call, result));
}

uint64_t contexts(int device)
{
    return driver<uint64_t(int)>("softcuda_contexts")(device);
}

// Of all GPUs.
uint64_t contexts()
{
    uint64_t sum = 0;
    for (int device = 0; device < 16; ++device) {
        sum += contexts(device);
    }
    return sum;
}

// What the program does with CUDA itself.
namespace gpu {

void initialise()
{
    check(driver<decltype(cuInit)>("cuInit")(0), "cuInit");
}

CUcontext use(CUdevice device)
{
    CUcontext context = nullptr;
    check(driver<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, device),
          "cuDevicePrimaryCtxRetain");
    check(driver<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    return context;
}

void make_own_context(CUdevice device)
{
    using Create = CUresult(CUcontext*, unsigned, CUdevice);
    CUcontext context = nullptr;
    check(driver<Create>("cuCtxCreate_v2")(&context, 0, device), "cuCtxCreate");
}

void* allocate(size_t size)
{
    CUdeviceptr address = 0;
    check(driver<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, size), "cuMemAlloc");
    return reinterpret_cast<void*>(address);
}

void free(void* address)
{
    check(driver<decltype(cuMemFree)>("cuMemFree_v2")(reinterpret_cast<CUdeviceptr>(address)),
          "cuMemFree");
}

void fill(void* address, int value, size_t size)
{
    check(driver<decltype(cuMemsetD8)>("cuMemsetD8_v2")(reinterpret_cast<CUdeviceptr>(address),
                                                        static_cast<unsigned char>(value), size),
          "cuMemsetD8");
}

std::vector<char> contents(const void* address, size_t size)
{
    std::vector<char> bytes(size);
    check(driver<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(
              bytes.data(), reinterpret_cast<CUdeviceptr>(address), size),
          "cuMemcpyDtoH");
    return bytes;
}

} // namespace gpu

// Two workers, one endpoint.
class Pair {
  public:
    Pair()
    {
        const auto address = receiver_.address();
        ucp_ep_params_t params = {};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        require_ok(ucp_ep_create(sender_.handle(), &params, &ep_), "ucp_ep_create");
    }

    void transfer(const void* from, void* to, size_t size)
    {
        const ucp_request_param_t nothing = {};
        void* received =
            ucp_tag_recv_nbx(receiver_.handle(), to, size, kTag, ~ucp_tag_t{0}, &nothing);
        finish(ucp_tag_send_nbx(ep_, from, size, kTag, &nothing));
        finish(received);
    }

    // The peer's memory is written, too.
    void put(const void* from, void* to, size_t size)
    {
        ucp_mem_map_params_t params = {};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = to;
        params.length = size;
        ucp_mem_h memory = nullptr;
        require_ok(ucp_mem_map(receiver_.context(), &params, &memory), "ucp_mem_map");
        void* packed = nullptr;
        size_t length = 0;
        require_ok(ucp_rkey_pack(receiver_.context(), memory, &packed, &length), "ucp_rkey_pack");
        ucp_rkey_h rkey = nullptr;
        require_ok(ucp_ep_rkey_unpack(ep_, packed, &rkey), "ucp_ep_rkey_unpack");
        const ucp_request_param_t nothing = {};
        finish(ucp_put_nbx(ep_, from, size, reinterpret_cast<uint64_t>(to), rkey, &nothing));
        finish(ucp_ep_flush_nbx(ep_, &nothing));
        ucp_rkey_destroy(rkey);
        ucp_rkey_buffer_release(packed);
        require_ok(ucp_mem_unmap(receiver_.context(), memory), "ucp_mem_unmap");
    }

    // As UCP 1.18 and later ask for it, to learn which memory domain has it.
    bool allocates_gpu_memory()
    {
        ucp_mem_map_params_t params = {};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                            UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.length = 1;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        params.memory_type = UCS_MEMORY_TYPE_CUDA;
        ucp_mem_h memory = nullptr;
        if (ucp_mem_map(sender_.context(), &params, &memory) != UCS_OK) {
            return false;
        }
        require_ok(ucp_mem_unmap(sender_.context(), memory), "ucp_mem_unmap");
        return true;
    }

    void close() { finish(ucp_ep_close_nb(ep_, UCP_EP_CLOSE_MODE_FLUSH)); }

  private:
    void finish(void* request)
    {
        if (request == nullptr) {
            return;
        }
        require(!UCS_PTR_IS_ERR(request), "an operation failed");
        sender_.wait(
            [&] {
                ucp_worker_progress(receiver_.handle());
                return ucp_request_check_status(request) != UCS_INPROGRESS;
            },
            "a transfer");
        require_ok(ucp_request_check_status(request), "a transfer");
        ucp_request_free(request);
    }

    static constexpr uint64_t kFeatures = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
    Worker sender_{kFeatures, false}, receiver_{kFeatures, false};
    ucp_ep_h ep_ = nullptr;
};

// Host memory: variables, the heap, mapped memory.
void transfer_host_memory(Pair& pair)
{
    std::vector<char> from(kLargest, 'h'), to(kLargest);
    for (const size_t size : kSizes) {
        std::fill(to.begin(), to.end(), 0);
        pair.transfer(from.data(), to.data(), size);
        require(std::memcmp(from.data(), to.data(), size) == 0, "the bytes differ");
        pair.put(from.data(), to.data(), size);
        void* mapped =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(mapped != MAP_FAILED, "mmap");
        pair.transfer(mapped, to.data(), size);
        munmap(mapped, size);
    }
}

void transfer_gpu_memory(Pair& pair)
{
    void* const from = gpu::allocate(kLargest);
    void* const to = gpu::allocate(kLargest);
    std::vector<char> host(kLargest);
    char value = 1;
    const auto require_value = [&](const void* bytes, size_t size) {
        require(std::vector<char>(size, value) == gpu::contents(bytes, size), "the bytes differ");
        gpu::fill(from, ++value, kLargest);
    };
    gpu::fill(from, value, kLargest);
    for (const size_t size : kSizes) {
        pair.transfer(from, to, size);
        require_value(to, size);
        pair.put(from, to, size);
        require_value(to, size);
        pair.transfer(from, host.data(), size);
        pair.transfer(host.data(), to, size);
        require_value(to, size);
    }
    gpu::free(from);
    gpu::free(to);
}

// Nobody has asked the driver for more than whether it is in use.
void require_untouched()
{
    require(contexts() == 0, format("%llu contexts", static_cast<unsigned long long>(contexts())));
    const Emulation emulation;
    // The HCA asks what it registers, where the driver is there.
    const uint64_t of_hca =
        std::min(emulation.hca().registrations, emulation.cuda_calls("cuPointerGetAttributes"));
    const uint64_t other =
        emulation.cuda_calls() - emulation.cuda_calls("cuDeviceGetCount") - of_hca;
    require(emulation.cuda_calls("cuInit") == 0, "CUDA was initialised");
    require(other == 0, format("%llu calls of the driver", static_cast<unsigned long long>(other)));
}

void use_in_child()
{
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        gpu::initialise();
        gpu::use(0);
        void* const memory = gpu::allocate(kLargest);
        gpu::fill(memory, 1, kLargest);
        gpu::free(memory);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child could not use CUDA");
}

void use_visible()
{
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    gpu::initialise();
    int devices = 0;
    char id[32] = "";
    check(driver<decltype(cuDeviceGetCount)>("cuDeviceGetCount")(&devices), "cuDeviceGetCount");
    check(driver<decltype(cuDeviceGetPCIBusId)>("cuDeviceGetPCIBusId")(id, sizeof(id), 0),
          "cuDeviceGetPCIBusId");
    require(devices == 1 && std::string(id).find(":02:") != std::string::npos,
            format("%d devices, the first is %s", devices, id));
    gpu::use(0);
}

// Rank 1 uses no CUDA.
int run_with_peer()
{
    Ranks ranks(2);
    const bool mine_on_gpu = ranks.rank() == 0;
    Report report(format("ucp_late peer, rank %d", ranks.rank()));
    report.begin("a peer's GPU memory", deadline_s());
    Worker worker(UCP_FEATURE_TAG, false);
    Endpoints endpoints(ranks, worker, Endpoints::Connect::kWorkerAddress, false);
    const ucp_ep_h ep = endpoints.to(1 - ranks.rank());
    if (mine_on_gpu) {
        gpu::initialise();
        gpu::use(0);
    }
    std::vector<char> host(kLargest);
    void* const memory = mine_on_gpu ? gpu::allocate(kLargest) : host.data();
    const ucp_request_param_t nothing = {};
    const auto finish = [&](void* request) {
        if (request == nullptr) {
            return;
        }
        require(!UCS_PTR_IS_ERR(request), "an operation failed");
        worker.wait([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; },
                    "a transfer");
        require_ok(ucp_request_check_status(request), "a transfer");
        ucp_request_free(request);
    };
    for (const size_t size : kSizes) {
        if (mine_on_gpu) {
            gpu::fill(memory, 'g', size);
            finish(ucp_tag_send_nbx(ep, memory, size, kTag, &nothing));
            gpu::fill(memory, 0, size);
            finish(ucp_tag_recv_nbx(worker.handle(), memory, size, kTag, ~ucp_tag_t{0}, &nothing));
            require(gpu::contents(memory, size) == std::vector<char>(size, 'g'),
                    "the bytes differ");
        } else {
            finish(ucp_tag_recv_nbx(worker.handle(), memory, size, kTag, ~ucp_tag_t{0}, &nothing));
            require(std::vector<char>(host.begin(), host.begin() + static_cast<long>(size)) ==
                        std::vector<char>(size, 'g'),
                    "the bytes differ");
            finish(ucp_tag_send_nbx(ep, memory, size, kTag, &nothing));
        }
    }
    if (!mine_on_gpu) {
        require_untouched();
    }
    endpoints.close();
    report.end();
    return ranks.join() + static_cast<int>(report.failures()) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(const std::string& what)
{
    Report report("ucp_late " + what);
    report.begin("host memory", deadline_s());
    Pair pair;
    transfer_host_memory(pair);
    if (what == "unloaded") {
        require(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr, "libcuda.so.1 is there");
    }
    require(!pair.allocates_gpu_memory(), "GPU memory is allocated in no context");
    require_untouched();
    report.begin("CUDA", deadline_s());
    if (what == "fork") {
        use_in_child();
        transfer_host_memory(pair);
        require_untouched();
    } else if (what != "never" && what != "unloaded") {
        if (what == "visible") {
            use_visible();
        } else {
            gpu::initialise();
        }
        require(what == "visible" || !pair.allocates_gpu_memory(),
                "GPU memory is allocated in no context");
        if (what == "context") {
            gpu::make_own_context(0);
        } else if (what != "visible") {
            gpu::use(what == "second" ? 1 : 0);
        }
        transfer_host_memory(pair);
        require(contexts() == 1, "there is a context that the program did not make");
        require(pair.allocates_gpu_memory(), "no GPU memory is allocated");
        transfer_gpu_memory(pair);
        const bool second = what == "second" || what == "visible";
        require(contexts(second ? 0 : 1) == 0, "a GPU that is not used has a context");
        if (what != "context") { // copies are made in the primary one of a GPU that is used
            require(contexts() == 1, "there is a context that the program did not make");
        }
    }
    pair.close();
    report.end();
    return report.failures() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
try {
    const std::string what = argc > 1 ? argv[1] : "never";
    return what == "peer" ? ucptest::run_with_peer() : ucptest::run(what);
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
}
