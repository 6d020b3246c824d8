// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ipc-trial, for "ucx-gdr info": tries whether a second process can open GPU memory of each kind,
// for each pair of GPUs, and finds the right bytes in it. Prints a line for each kind and outcome.
#include "cuda/allocation_handle.hpp"
#include "cuda/context.hpp"
#include "cuda/driver.hpp"
#include "ipc/descriptor_message.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using gdr::cuda::check;
using gdr::cuda::Driver;
using gdr::cuda::UniqueFd;
using gdr::ipc::receive_message;
using gdr::ipc::send_message;

constexpr unsigned kPatience = 60; // seconds, for all of it
constexpr size_t kSize = 4 << 20;

enum class Kind { handle, descriptor, fabric, pool };
constexpr struct {
    Kind kind;
    const char* name;
} kKinds[] = {
    {Kind::handle, "cudaMalloc"},
    {Kind::descriptor, "cuMemCreate with file descriptors"},
    {Kind::fabric, "cuMemCreate with fabric handles"},
    {Kind::pool, "pools (cudaMallocAsync)"},
};

// How to open the memory. A descriptor is passed beside it.
struct Offer {
    Kind kind;
    unsigned char fill;
    CUdevice device; // the GPU for which it is opened
    char bytes[64];  // a CUipcMemHandle or a cuda::FabricHandle
};

struct Answer {
    char why_not[256]; // empty: it opens
};

// ---- the memory

// Functions of the driver that only this program uses.
template <class Function>
Function look_up(const char* name)
{
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) {
        throw std::runtime_error(std::string("the driver has no ") + name);
    }
    return function;
}
#define LOOK_UP(function) look_up<decltype(&::function)>(#function)

// Memory on the GPU of the current context.
class Memory {
  public:
    Memory(const Driver& driver, Kind kind, CUdevice device) : driver_(driver), kind_(kind)
    {
        if (kind == Kind::handle) {
            check(driver.cuMemAlloc(&address_, kSize), "cuMemAlloc");
        } else if (kind == Kind::pool) {
            check(LOOK_UP(cuMemAllocAsync)(&address_, kSize, CU_STREAM_LEGACY), "cuMemAllocAsync");
        } else {
            create(device);
        }
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory()
    {
        if (is_mapped()) {
            gdr::cuda::unmap(driver_, address_, length_);
        } else {
            driver_.cuMemFree(address_);
        }
    }

    CUdeviceptr address() const { return address_; }
    bool is_mapped() const { return kind_ == Kind::descriptor || kind_ == Kind::fabric; }

    // Sets the bytes of the offer, and the descriptor.
    void offer(Offer& offer, UniqueFd& descriptor) const
    {
        if (is_mapped()) {
            const gdr::cuda::AllocationHandle allocation(driver_, address_);
            if (kind_ == Kind::descriptor) {
                descriptor = allocation.descriptor();
            } else {
                put(offer, allocation.fabric());
            }
            return;
        }
        CUipcMemHandle handle;
        check(driver_.cuIpcGetMemHandle(&handle, address_), "cuIpcGetMemHandle");
        put(offer, handle);
    }

  private:
    template <class Handle>
    static void put(Offer& offer, const Handle& handle)
    {
        static_assert(sizeof(handle) == sizeof(offer.bytes));
        memcpy(offer.bytes, &handle, sizeof(handle));
    }

    void create(CUdevice device)
    {
        constexpr auto kFabric = static_cast<CUmemAllocationHandleType>(8); // named by CUDA 12.3
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        properties.requestedHandleTypes =
            kind_ == Kind::fabric ? kFabric : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        CUmemGenericAllocationHandle handle = 0;
        check(LOOK_UP(cuMemCreate)(&handle, kSize, &properties, 0), "cuMemCreate");
        CUresult result = driver_.cuMemAddressReserve(&address_, kSize, 0, 0, 0);
        if (result == CUDA_SUCCESS) {
            result = driver_.cuMemMap(address_, kSize, 0, handle, 0);
        }
        driver_.cuMemRelease(handle);
        check(result, "cuMemMap");
        length_ = kSize;
        CUmemAccessDesc access{};
        access.location = properties.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        result = driver_.cuMemSetAccess(address_, kSize, &access, 1);
        if (result != CUDA_SUCCESS) {
            gdr::cuda::unmap(driver_, address_, kSize);
        }
        check(result, "cuMemSetAccess");
    }

    const Driver& driver_;
    const Kind kind_;
    CUdeviceptr address_ = 0;
    size_t length_ = 0;
};

// ---- the second process

CUdeviceptr open(const Driver& driver, const Offer& offer, int descriptor)
{
    if (offer.kind == Kind::descriptor) {
        return gdr::cuda::map_descriptor(driver, descriptor, kSize, offer.device);
    }
    if (offer.kind == Kind::fabric) {
        gdr::cuda::FabricHandle fabric;
        memcpy(&fabric, offer.bytes, sizeof(fabric));
        return gdr::cuda::map_fabric(driver, fabric, kSize, offer.device);
    }
    CUipcMemHandle handle;
    memcpy(&handle, offer.bytes, sizeof(handle));
    CUdeviceptr address = 0;
    check(driver.cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
          "cuIpcOpenMemHandle");
    return address;
}

void close(const Driver& driver, const Offer& offer, CUdeviceptr address)
{
    if (offer.kind == Kind::handle || offer.kind == Kind::pool) {
        driver.cuIpcCloseMemHandle(address);
    } else {
        gdr::cuda::unmap(driver, address, kSize);
    }
}

void try_it(const Driver& driver, const Offer& offer, int descriptor)
{
    const gdr::cuda::PrimaryContext primary(driver, offer.device);
    const gdr::cuda::CurrentContext current(driver, primary.handle());
    const CUdeviceptr address = open(driver, offer, descriptor);
    unsigned char byte = static_cast<unsigned char>(~offer.fill);
    const CUresult result =
        driver.cuMemcpy(reinterpret_cast<CUdeviceptr>(&byte), address + kSize - 1, 1);
    close(driver, offer, address);
    check(result, "cuMemcpy");
    if (byte != offer.fill) {
        throw std::runtime_error("it opens, and holds other bytes");
    }
}

void serve(int socket)
{
    const Driver* driver = gdr::cuda::driver();
    Offer offer;
    for (UniqueFd descriptor; receive_message(socket, &offer, sizeof(offer), &descriptor);) {
        std::string why_not = driver == nullptr ? gdr::cuda::unavailable_reason() : "";
        try {
            if (driver != nullptr) {
                try_it(*driver, offer, descriptor.get());
            }
        } catch (const std::exception& error) {
            why_not = error.what();
        }
        Answer answer{};
        why_not.copy(answer.why_not, sizeof(answer.why_not) - 1);
        (void)!send(socket, &answer, sizeof(answer), MSG_NOSIGNAL);
    }
}

// ---- the first one

using Pair = std::pair<CUdevice, CUdevice>; // the memory's GPU, and the GPU for which it is opened

std::string ask(int socket, const Offer& offer, const UniqueFd& descriptor)
{
    Answer answer{};
    if (!send_message(socket, &offer, sizeof(offer), descriptor.get()) ||
        recv(socket, &answer, sizeof(answer), 0) != sizeof(answer)) {
        return "the second process has died of it";
    }
    return answer.why_not;
}

// The outcome for each pair; empty if it opens.
std::map<Pair, std::string> try_kind(const Driver& driver, int socket, Kind kind, int devices)
{
    std::map<Pair, std::string> outcomes;
    for (CUdevice one = 0; one < devices; ++one) {
        std::string why_not;
        try {
            const gdr::cuda::PrimaryContext primary(driver, one);
            const gdr::cuda::CurrentContext current(driver, primary.handle());
            const Memory memory(driver, kind, one);
            Offer offer{kind, static_cast<unsigned char>(0x50 + one), 0, {}};
            check(driver.cuMemsetD8(memory.address(), offer.fill, kSize), "cuMemsetD8");
            check(driver.cuStreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
            UniqueFd descriptor;
            memory.offer(offer, descriptor);
            for (offer.device = 0; offer.device < devices; ++offer.device) {
                outcomes[{one, offer.device}] = ask(socket, offer, descriptor);
            }
        } catch (const std::exception& error) {
            for (CUdevice other = 0; other < devices; ++other) {
                outcomes[{one, other}] = error.what();
            }
        }
    }
    return outcomes;
}

// "within each GPU", "between GPUs", or a list of pairs.
std::string names(const std::vector<Pair>& pairs, int devices)
{
    size_t within = 0;
    for (const auto& [one, other] : pairs) {
        within += one == other;
    }
    const auto all = static_cast<size_t>(devices);
    if (within == all && pairs.size() == all) {
        return "within each GPU";
    }
    if (within == 0 && pairs.size() == all * (all - 1)) {
        return "between GPUs";
    }
    std::string text;
    for (const auto& [one, other] : pairs) {
        text += (text.empty() ? "of GPU " : ", ") + std::to_string(one) + " for " +
                std::to_string(other);
    }
    return text;
}

void print(const char* kind, const std::map<Pair, std::string>& outcomes, int devices)
{
    std::map<std::string, std::vector<Pair>> pairs;
    for (const auto& [pair, outcome] : outcomes) {
        pairs[outcome].push_back(pair);
    }
    for (const auto& [outcome, some] : pairs) {
        const std::string which = pairs.size() > 1 ? " " + names(some, devices) : "";
        printf("memory of %s%s: %s%s\n", kind, which.c_str(),
               outcome.empty() ? "opens" : "does not open: ", outcome.c_str());
    }
}

int run()
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        perror("socketpair");
        return 1;
    }
    alarm(kPatience);
    const pid_t second = fork(); // before CUDA is used, which does not survive fork()
    if (second == 0) {
        ::close(pair[0]);
        alarm(kPatience);
        serve(pair[1]);
        _exit(0);
    }
    ::close(pair[1]);
    int devices = 0;
    const Driver* driver = gdr::cuda::driver();
    if (driver == nullptr || driver->cuDeviceGetCount(&devices) != CUDA_SUCCESS) {
        printf("not tried: %s\n", gdr::cuda::unavailable_reason().c_str());
        return 1;
    }
    setvbuf(stdout, nullptr, _IOLBF, 0); // results so far are shown even if a later trial dies
    for (const auto& [kind, name] : kKinds) {
        print(name, try_kind(*driver, pair[0], kind, devices), devices);
    }
    ::close(pair[0]);
    waitpid(second, nullptr, 0);
    return 0;
}

} // namespace

int main()
{
    return run();
}
