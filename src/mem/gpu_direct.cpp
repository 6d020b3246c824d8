// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Trying out registrations of device memory.
#include "mem/gpu_direct.hpp"

#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "cuda/dmabuf.hpp"
#include "verbs/error.hpp"

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
    std::vector<cuda::Device> gpus = cuda::devices(*driver);
    bool tried = false;
    for (const cuda::Device& gpu : gpus) {
        unsigned flags = 0;
        int active = 0;
        methods_[gpu.handle] = Method::untried;
        if (driver->cuDevicePrimaryCtxGetState(gpu.handle, &flags, &active) == CUDA_SUCCESS &&
            active) {
            try_gpu(*driver, gpu.handle, gpu.name, hca, pd);
            tried = true;
        }
    }
    if (!tried && !gpus.empty()) {
        try_gpu(*driver, gpus.front().handle, gpus.front().name, hca, pd);
    }
}

void GpuDirect::try_gpu(const cuda::Driver& driver, CUdevice gpu, const std::string& name,
                        const verbs::Device& hca, ibv_pd* pd)
{
    std::string line = "GPU " + std::to_string(gpu) + " (" + name + ") with " + hca.name() + ": ";
    try {
        cuda::PrimaryContext context(driver, gpu);
        void* memory = nullptr;
        CUresult allocated = cuda::allocate(driver, cuda::MemoryKind::device, context.handle(),
                                            kTestLength, &memory);
        if (allocated != CUDA_SUCCESS) {
            report_.push_back(line + "not tried yet, no device memory for a test: " +
                              cuda::error_text(driver, allocated));
            return;
        }
        DeviceRegistration test =
            register_device_memory(driver, hca, pd, reinterpret_cast<uintptr_t>(memory),
                                   kTestLength, IBV_ACCESS_LOCAL_WRITE, Method::untried);
        decide(gpu, test.method);
        line += test.method == Method::none
                    ? "no GPUDirect RDMA, device memory is staged through host memory (" +
                          test.cause + ")"
                    : std::string("GPUDirect RDMA by ") + to_string(test.method) +
                          (test.method == Method::peermem
                               ? ", but for memory of cuMemAllocAsync, which is staged"
                               : "") +
                          (test.cause.empty() ? "" : " (" + test.cause + ")");
        test.mr.reset();
        cuda::release(driver, memory);
    } catch (const std::exception& error) {
        line += std::string("not tried yet: ") + error.what();
    }
    report_.push_back(line);
}

bool GpuDirect::possible() const
{
    for (const auto& [gpu, method] : methods_) {
        if (method == Method::dmabuf || method == Method::peermem) {
            return true;
        }
    }
    return false;
}

void GpuDirect::decide(CUdevice gpu, Method method)
{
    methods_[gpu] = method;
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
