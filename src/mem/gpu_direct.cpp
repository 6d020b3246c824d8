// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Trying out registrations of device memory.
#include "mem/gpu_direct.hpp"

#include "cuda/allocation.hpp"
#include "cuda/dmabuf.hpp"
#include "mem/rdma_writes.hpp"
#include "verbs/error.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>

namespace gdr::mem {
namespace {

constexpr size_t kTestLength = 64 << 10; // a GPU page of peermem

void add_cause(std::string& causes, const std::string& cause)
{
    causes += causes.empty() ? cause : "; " + cause;
}

std::atomic<bool> peermem_used = false;
std::atomic<uint64_t> gpus_taken = 0, gpus_refused = 0; // by some HCA; a bit each

constexpr uintptr_t kWord = sizeof(uint64_t);

bool try_dmabuf(const cuda::Driver& driver, ibv_pd* pd, uintptr_t start, size_t length, int access,
                DeviceRegistration& result)
{
    cuda::DmabufExport exported =
        cuda::export_dmabuf(driver, reinterpret_cast<void*>(start), length);
    if (exported.result != CUDA_SUCCESS) {
        result.error = EOPNOTSUPP;
        add_cause(result.cause, "dmabuf: the CUDA driver does not export this memory: " +
                                    cuda::error_text(driver, exported.result));
        return false;
    }
    // The pages may hold more than this memory, which is nobody's business. Its last word is whole,
    // for an atomic on a part of it: CUDA gives each allocation whole units of 256 bytes and more.
    const uintptr_t end = (start + length + kWord - 1) & ~(kWord - 1);
    result.mr.reset(ibv_reg_dmabuf_mr(pd, start - exported.base, end - start, start,
                                      exported.fd.get(), access));
    if (!result.mr) {
        result.error = errno;
        add_cause(result.cause, "dmabuf: ibv_reg_dmabuf_mr: " + verbs::errno_text(result.error));
        return false;
    }
    result.method = Method::dmabuf;
    return true;
}

bool try_peermem(ibv_pd* pd, uintptr_t start, size_t length, int access, DeviceRegistration& result)
{
    result.mr.reset(ibv_reg_mr(pd, reinterpret_cast<void*>(start), length, access));
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

// How a line of the report begins.
std::string introduce(const cuda::Device& gpu, const verbs::Device& hca)
{
    return "GPU " + std::to_string(gpu.handle) + " (" + gpu.name + ") with " + hca.name() + ": ";
}

// A GPU's primary context, one object for all who hold it at a time.
std::shared_ptr<cuda::PrimaryContext> shared_context(const cuda::Driver& driver, CUdevice gpu)
{
    static std::mutex mutex;
    static auto& held = *new std::map<CUdevice, std::weak_ptr<cuda::PrimaryContext>>;
    const std::lock_guard guard(mutex);
    std::shared_ptr<cuda::PrimaryContext> context = held[gpu].lock();
    if (!context) {
        context = std::make_shared<cuda::PrimaryContext>(driver, gpu);
        held[gpu] = context;
    }
    return context;
}

} // namespace

const char* to_string(Method method)
{
    switch (method) {
    case Method::dmabuf:
        return "dmabuf";
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

bool only_others_taken(CUdevice gpu)
{
    const uint64_t bit = gpu >= 0 && gpu < 64 ? uint64_t{1} << gpu : 0;
    const uint64_t taken = gpus_taken.load(std::memory_order_relaxed);
    return taken != 0 && (taken & bit) == 0 &&
           (gpus_refused.load(std::memory_order_relaxed) & bit) != 0;
}

DeviceRegistration register_device_memory(const cuda::Driver& driver, const verbs::Device& hca,
                                          ibv_pd* pd, uintptr_t start, size_t length, int access,
                                          Method method)
{
    DeviceRegistration result;
    if (method == Method::dmabuf || method == Method::untried) {
        std::string cause;
        if (method == Method::untried && !hca.supports_dmabuf(pd, &cause)) {
            result.error = EOPNOTSUPP;
            add_cause(result.cause, "dmabuf: " + cause);
        } else if (try_dmabuf(driver, pd, start, length, access, result)) {
            return result;
        }
    }
    if (method == Method::peermem || method == Method::untried) {
        try_peermem(pd, start, length, access, result);
    }
    return result;
}

GpuDirect::GpuDirect(const verbs::Device& hca, ibv_pd* pd)
{
    const cuda::Driver* driver = cuda::driver();
    if (driver == nullptr) {
        return;
    }
    const std::vector<cuda::Device> gpus = cuda::devices(*driver);
    std::set<std::string> refused; // models
    const auto try_and_note = [&](const cuda::Device& gpu) {
        try_gpu(*driver, gpu, hca, pd);
        if (method(gpu.handle) == Method::none) {
            refused.insert(gpu.name);
        }
    };
    std::vector<cuda::Device> inactive;
    for (const cuda::Device& gpu : gpus) {
        methods_[gpu.handle] = Method::untried;
        if (!gpu.sees_rdma_writes && !gpu.flushes_rdma_writes) {
            decide(gpu.handle, Method::none);
            report_.push_back(
                introduce(gpu, hca) +
                "no GPUDirect RDMA, device memory is staged through host memory (what "
                "runs on the GPU does not see an HCA's writes in order, and the driver "
                "has no flush)");
            continue;
        }
        if (!gpu.sees_rdma_writes) {
            RdmaWrites::instance().add(gpu.handle);
        }
        if (cuda::has_primary_context(*driver, gpu.handle)) {
            try_and_note(gpu);
        } else {
            inactive.push_back(gpu);
        }
    }
    for (const cuda::Device& gpu : inactive) {
        if (!usable() && !refused.contains(gpu.name)) {
            try_and_note(gpu);
        }
    }
    std::string ignored; // the report of a GPU that was tried tells it
    expected_ = std::ranges::any_of(gpus, [&](const cuda::Device& gpu) {
        return method(gpu.handle) == Method::untried && gpu.dmabuf && !refused.contains(gpu.name) &&
               hca.supports_dmabuf(pd, &ignored);
    });
}

void GpuDirect::try_gpu(const cuda::Driver& driver, const cuda::Device& gpu,
                        const verbs::Device& hca, ibv_pd* pd)
{
    std::string line = introduce(gpu, hca);
    const bool active = cuda::has_primary_context(driver, gpu.handle);
    if (!active && !gpu.shared) {
        report_.push_back(line + "not tried yet: its compute mode is exclusive or prohibited, and "
                                 "nobody uses it here yet");
        return;
    }
    try {
        const auto context = shared_context(driver, gpu.handle);
        std::string cause;
        const Method method = try_memory(driver, context->handle(), hca, pd, &cause);
        if (!active || context.use_count() > 1) { // it is not the application's
            test_context_ = context;
        }
        if (method == Method::untried) {
            line += "not tried yet: " + cause;
        } else {
            decide(gpu.handle, method);
            line += method == Method::none
                        ? "no GPUDirect RDMA, device memory is staged through host memory (" +
                              cause + ")"
                        : std::string("GPUDirect RDMA by ") + to_string(method) +
                              (method == Method::peermem
                                   ? ", but for memory of cuMemAllocAsync, which is staged"
                                   : "") +
                              (cause.empty() ? "" : " (" + cause + ")");
        }
    } catch (const std::exception& error) {
        line += std::string("not tried yet: ") + error.what();
    }
    report_.push_back(line);
}

// untried: that this registration fails says nothing about others.
Method GpuDirect::try_memory(const cuda::Driver& driver, CUcontext context,
                             const verbs::Device& hca, ibv_pd* pd, std::string* cause)
{
    void* memory = nullptr;
    const CUresult allocated =
        cuda::allocate(driver, cuda::MemoryKind::device, context, kTestLength, &memory);
    if (allocated != CUDA_SUCCESS) {
        *cause = "no device memory for a test: " + cuda::error_text(driver, allocated);
        return Method::untried;
    }
    DeviceRegistration test =
        register_device_memory(driver, hca, pd, reinterpret_cast<uintptr_t>(memory), kTestLength,
                               IBV_ACCESS_LOCAL_WRITE, Method::untried);
    test.mr.reset();
    cuda::release(driver, memory);
    *cause = test.cause;
    return test.method == Method::none && test.error == ENOMEM ? Method::untried : test.method;
}

bool GpuDirect::usable() const
{
    return std::ranges::any_of(methods_, [](const auto& known) {
        return known.second == Method::dmabuf || known.second == Method::peermem;
    });
}

bool GpuDirect::possible() const
{
    return expected_ || usable();
}

void GpuDirect::decide(CUdevice gpu, Method method)
{
    methods_[gpu] = method;
    if (method != Method::untried) {
        const uint64_t bit = gpu < 64 ? uint64_t{1} << gpu : 0;
        (method == Method::none ? gpus_refused : gpus_taken)
            .fetch_or(bit, std::memory_order_relaxed);
    }
    if (method == Method::peermem) {
        peermem_used.store(true, std::memory_order_relaxed);
    }
}

Method GpuDirect::method(CUdevice gpu) const
{
    auto found = methods_.find(gpu);
    return found != methods_.end() ? found->second : Method::untried;
}

} // namespace gdr::mem
