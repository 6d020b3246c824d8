// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Tries to register device memory.
#include "mem/gpu_direct.hpp"

#include "cuda/allocation.hpp"
#include "cuda/dmabuf.hpp"
#include "cuda/inventory.hpp"
#include "mem/rdma_writes.hpp"
#include "verbs/error.hpp"
#include "verbs/relaxed_ordering.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace gdr::mem {
namespace {

constexpr size_t kTestLength = 64 << 10; // a GPU page of peermem

void add_cause(std::string& causes, const std::string& cause)
{
    causes += causes.empty() ? cause : "; " + cause;
}

std::atomic<bool> peermem_used = false;
std::atomic<uint64_t> gpus_taken = 0, gpus_refused = 0; // by some HCA; one bit per GPU

uint64_t bit_of(CUdevice gpu)
{
    return gpu >= 0 && gpu < 64 ? uint64_t{1} << gpu : 0;
}

constexpr uintptr_t kWord = sizeof(uint64_t);

enum class Attempt { succeeded, not_exported, refused };

// Tries one of the two dmabuf methods.
Attempt try_dmabuf(const cuda::Driver& driver, ibv_pd* pd, uintptr_t start, size_t length,
                   int access, Method method, DeviceRegistration& result)
{
    const bool by_pcie = method == Method::dmabuf_by_pcie;
    const std::string name = by_pcie ? "dmabuf over PCIe: " : "dmabuf: ";
    cuda::DmabufExport exported =
        cuda::export_dmabuf(driver, reinterpret_cast<void*>(start), length,
                            by_pcie ? cuda::DmabufMapping::pcie : cuda::DmabufMapping::usual);
    if (exported.result != CUDA_SUCCESS) {
        result.error = EOPNOTSUPP;
        add_cause(result.cause, name + "the CUDA driver does not export this memory: " +
                                    cuda::error_text(driver, exported.result));
        return Attempt::not_exported;
    }
    // The pages may hold other memory too, which must not be registered. The last word is
    // registered as a whole, for an atomic on a part of it: CUDA allocates in units of at least 256
    // bytes.
    const uintptr_t end = (start + length + kWord - 1) & ~(kWord - 1);
    result.mr = verbs::register_memory(pd, access, [&](int flags) {
        return ibv_reg_dmabuf_mr(pd, start - exported.base, end - start, start, exported.fd.get(),
                                 flags);
    });
    if (!result.mr) {
        result.error = errno;
        add_cause(result.cause, name + "ibv_reg_dmabuf_mr: " + verbs::errno_text(result.error));
        return Attempt::refused;
    }
    result.method = method;
    return Attempt::succeeded;
}

// Whether the error says that the driver cannot use this mapping.
bool is_of_the_mapping(int error)
{
    return error == verbs::kKernelNotSupported || error == EOPNOTSUPP || error == EIO;
}

// Tries both mappings.
bool try_dmabufs(const cuda::Driver& driver, ibv_pd* pd, uintptr_t start, size_t length, int access,
                 DeviceRegistration& result)
{
    const auto attempt = [&](Method method) {
        return try_dmabuf(driver, pd, start, length, access, method, result);
    };
    const Attempt usual = attempt(Method::dmabuf);
    return usual == Attempt::succeeded ||
           (usual == Attempt::refused && is_of_the_mapping(result.error) &&
            attempt(Method::dmabuf_by_pcie) == Attempt::succeeded);
}

bool try_peermem(ibv_pd* pd, uintptr_t start, size_t length, int access, DeviceRegistration& result)
{
    result.mr = verbs::register_memory(pd, access, [&](int flags) {
        return ibv_reg_mr(pd, reinterpret_cast<void*>(start), length, flags);
    });
    if (!result.mr) {
        result.error = errno;
        add_cause(result.cause,
                  "peermem: ibv_reg_mr: " + verbs::errno_text(result.error) +
                      (result.error == EFAULT ? " (is the nvidia-peermem module loaded?)" : ""));
        return false;
    }
    result.method = Method::peermem;
    return true;
}

// The beginning of a report line.
std::string introduce(const cuda::Device& gpu, const verbs::Device& hca)
{
    return "GPU " + std::to_string(gpu.handle) + " (" + gpu.name + ") with " + hca.name() + ": ";
}

// An HCA that the kernel does not know does not need the kernel's modules.
cuda::KernelSupport support_for(const verbs::Device& hca)
{
    return hca.sysfs().exists() ? cuda::kernel_support() : cuda::KernelSupport{true, true};
}

} // namespace

const char* to_string(Method method)
{
    switch (method) {
    case Method::dmabuf:
        return "dmabuf";
    case Method::dmabuf_by_pcie:
        return "dmabuf over PCIe";
    case Method::peermem:
        return "peermem";
    case Method::none:
        return "none";
    default:
        return "untried";
    }
}

bool peermem_in_use()
{
    return peermem_used.load(std::memory_order_relaxed);
}

bool is_refused(CUdevice gpu)
{
    const uint64_t bit = bit_of(gpu);
    return (gpus_refused.load(std::memory_order_relaxed) & bit) != 0 &&
           (gpus_taken.load(std::memory_order_relaxed) & bit) == 0;
}

DeviceRegistration register_device_memory(const cuda::Driver& driver, const verbs::Device& hca,
                                          ibv_pd* pd, uintptr_t start, size_t length, int access,
                                          Method method)
{
    DeviceRegistration result;
    if (is_dmabuf(method)) {
        try_dmabuf(driver, pd, start, length, access, method, result);
        return result;
    }
    if (method == Method::untried) {
        std::string cause;
        if (!hca.supports_dmabuf(pd, &cause)) {
            result.error = EOPNOTSUPP;
            add_cause(result.cause, "dmabuf: " + cause);
        } else if (try_dmabufs(driver, pd, start, length, access, result)) {
            return result;
        }
    }
    if (method == Method::peermem || method == Method::untried) {
        try_peermem(pd, start, length, access, result);
    }
    return result;
}

GpuDirect::GpuDirect(const verbs::Device& hca, ibv_pd* pd) : hca_(hca), pd_(pd)
{
    if (cuda::open_driver() == nullptr) {
        return;
    }
    const cuda::KernelSupport support = support_for(hca);
    std::string cause;
    if (!support.dmabuf) {
        add_cause(obstacle_, "dmabuf: NVIDIA's kernel modules are not the open ones");
    } else if (!hca.supports_dmabuf(pd, &cause)) {
        add_cause(obstacle_, "dmabuf: " + cause);
    } else {
        possible_ = true;
    }
    if (support.peermem) {
        possible_ = true;
    } else {
        add_cause(obstacle_, "peermem: the nvidia-peermem module is not loaded");
    }
    if (possible_) {
        obstacle_.clear();
    }
}

std::string GpuDirect::learn(const cuda::Driver& driver, const cuda::Pointer& memory)
{
    if (!possible_ || method(memory.device) != Method::untried) {
        return {};
    }
    const cuda::Device gpu = cuda::device(driver, memory.device);
    return learn(gpu, [&] {
        DeviceRegistration test = register_device_memory(driver, hca_, pd_, memory.base,
                                                         std::min(memory.length, kTestLength),
                                                         IBV_ACCESS_LOCAL_WRITE, Method::untried);
        std::string ignored;
        const bool by_dmabuf = gpu.dmabuf && hca_.supports_dmabuf(pd_, &ignored);
        if (is_dmabuf(test.method) || test.error == ENOMEM ||
            (test.method == Method::peermem && !by_dmabuf)) {
            return test;
        }
        const cuda::CurrentContext current(driver, memory);
        return test_own_memory(driver);
    });
}

std::string GpuDirect::learn(const cuda::Driver& driver, const cuda::Device& gpu)
{
    if (!gpu.shared && !cuda::has_primary_context(driver, gpu.handle)) {
        return introduce(gpu, hca_) + "not tried: its compute mode is exclusive or prohibited, and "
                                      "nobody uses it here";
    }
    return learn(gpu, [&] {
        const cuda::PrimaryContext context(driver, gpu.handle);
        const cuda::CurrentContext current(driver, context.handle());
        return test_own_memory(driver);
    });
}

std::string GpuDirect::learn(const cuda::Device& gpu, auto test)
{
    std::string line = introduce(gpu, hca_);
    constexpr const char* kNone = "no GPUDirect RDMA, device memory is staged through host memory ";
    if (!gpu.sees_rdma_writes && !gpu.flushes_rdma_writes) {
        decide(gpu.handle, Method::none);
        return line + kNone +
               "(what runs on the GPU does not see an HCA's writes in order, and the driver has no "
               "flush)";
    }
    if (!gpu.sees_rdma_writes) {
        RdmaWrites::instance().add(gpu.handle);
    }
    try {
        const DeviceRegistration tried = test();
        if (tried.method == Method::none && tried.error == ENOMEM) {
            return line + "not tried yet: " + tried.cause;
        }
        decide(gpu.handle, tried.method);
        if (tried.method == Method::none) {
            return line + kNone + "(" + tried.cause + ")";
        }
        line += std::string("GPUDirect RDMA by ") + to_string(tried.method);
        if (tried.method == Method::peermem) {
            line += ", but for memory of cuMemAllocAsync, which is staged";
        }
        return line + (tried.cause.empty() ? "" : " (" + tried.cause + ")");
    } catch (const cuda::Error& error) {
        return line + "not tried yet: " + error.what();
    }
}

// Allocates in the current context and leaves the memory to it: freeing it here would wait for all
// work on the GPU, which may be waiting for this thread (libucx-gdr).
DeviceRegistration GpuDirect::test_own_memory(const cuda::Driver& driver) const
{
    DeviceRegistration test;
    void* memory = nullptr;
    const CUresult allocated =
        cuda::allocate(driver, cuda::MemoryKind::device, nullptr, kTestLength, &memory);
    if (allocated != CUDA_SUCCESS) {
        test.error = ENOMEM;
        test.cause = "no device memory for a test: " + cuda::error_text(driver, allocated);
        return test;
    }
    test = register_device_memory(driver, hca_, pd_, reinterpret_cast<uintptr_t>(memory),
                                  kTestLength, IBV_ACCESS_LOCAL_WRITE, Method::untried);
    test.mr.reset();
    return test;
}

void GpuDirect::decide(CUdevice gpu, Method method)
{
    methods_[gpu] = method;
    if (method != Method::untried) {
        (method == Method::none ? gpus_refused : gpus_taken)
            .fetch_or(bit_of(gpu), std::memory_order_relaxed);
    }
    if (method == Method::peermem) {
        peermem_used.store(true, std::memory_order_relaxed);
    }
}

Method GpuDirect::method(CUdevice gpu) const
{
    if (!possible_) {
        return Method::none;
    }
    auto found = methods_.find(gpu);
    return found != methods_.end() ? found->second : Method::untried;
}

} // namespace gdr::mem
