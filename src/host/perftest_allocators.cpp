// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The allocators. As in ucx_perftest's own module for CUDA, the processes of a test take the
// devices in turn.
#include "host/perftest_allocators.hpp"

#include "abi/perftest.hpp"
#include "cuda/allocation.hpp"
#include "cuda/context.hpp"
#include "host/perftest_context.hpp"
#include "log/log.hpp"

#include <exception>
#include <utility>

#include <dlfcn.h>

namespace gdr::host {
namespace {

// init() makes it, and it stays: the program's buffers live in it until it exits.
std::optional<cuda::PrimaryContext>& test_context()
{
    static auto* const context = new std::optional<cuda::PrimaryContext>;
    return *context;
}

void log_failure(const char* call, CUresult result)
{
    gdr_log(error, "%s failed: %s", call, cuda::error_text(result).c_str());
}

// Once: a test is repeated for each size.
void warn_of_structures(const char* what)
{
    static bool warned = false;
    if (!std::exchange(warned, true)) {
        gdr_log(warn,
                "no CUDA memory for ucx_perftest -m cuda: %s, so its structures are not those of "
                "the UCX in this process (use the ucx_perftest of that UCX)",
                what);
    }
}

ucs_status_t init(void* perf)
{
    if (test_context()) {
        return UCS_OK;
    }
    const cuda::Driver* driver = cuda::driver();
    if (!driver) {
        gdr_log(error, "no CUDA memory: %s", cuda::unavailable_reason().c_str());
        return UCS_ERR_NO_DEVICE;
    }
    const auto rank = perftest_allocators().begin_test(perf);
    if (!rank) {
        return UCS_ERR_UNSUPPORTED;
    }
    try {
        int count;
        CUdevice device;
        cuda::check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
        cuda::check(driver->cuDeviceGet(&device, static_cast<int>(*rank % unsigned(count))),
                    "cuDeviceGet");
        test_context().emplace(*driver, device);
        cuda::check(driver->cuCtxPushCurrent(test_context()->handle()), "cuCtxPushCurrent");
        return UCS_OK;
    } catch (const std::exception& error) {
        gdr_log(error, "no CUDA memory: %s", error.what());
        return UCS_ERR_NO_DEVICE;
    }
}

ucs_status_t alloc_and_register(const void* perf, cuda::MemoryKind kind, ucs_memory_type_t type,
                                size_t length, unsigned flags, void* memory)
{
    const uct_md_h md = perftest::memory_domain(perf);
    if (md == nullptr) {
        warn_of_structures("no memory domain is where a test of UCT has it");
        return UCS_ERR_UNSUPPORTED;
    }
    const cuda::Driver& driver = *cuda::driver(); // init() has found it
    void* address;
    const CUresult result =
        cuda::allocate(driver, kind, test_context()->handle(), length, &address);
    if (result != CUDA_SUCCESS) {
        log_failure("allocating CUDA memory", result);
        return UCS_ERR_NO_MEMORY;
    }
    uct_mem_h memh;
    const ucs_status_t status = uct_md_mem_reg(md, address, length, flags, &memh);
    if (status != UCS_OK) {
        gdr_log(error, "registering CUDA memory failed: %s", ucs_status_string(status));
        cuda::release(driver, address);
        return status;
    }
    *static_cast<abi::PerftestMemory*>(memory) = {address, length, UCT_ALLOC_METHOD_LAST,
                                                  type,    md,     memh};
    return UCS_OK;
}

ucs_status_t alloc_device(const void* perf, size_t length, unsigned flags, void* memory)
{
    return alloc_and_register(perf, cuda::MemoryKind::device, UCS_MEMORY_TYPE_CUDA, length, flags,
                              memory);
}

ucs_status_t alloc_managed(const void* perf, size_t length, unsigned flags, void* memory)
{
    return alloc_and_register(perf, cuda::MemoryKind::managed, UCS_MEMORY_TYPE_CUDA_MANAGED, length,
                              flags, memory);
}

void free_registered(const void*, void* allocated)
{
    const auto* memory = static_cast<const abi::PerftestMemory*>(allocated);
    const ucs_status_t status = uct_md_mem_dereg(memory->md, memory->memh);
    if (status != UCS_OK) {
        gdr_log(error, "deregistering CUDA memory failed: %s", ucs_status_string(status));
    }
    const CUresult result = cuda::release(*cuda::driver(), memory->address);
    if (result != CUDA_SUCCESS) {
        log_failure("freeing CUDA memory", result);
    }
}

// Returns when the bytes are there.
void copy(void* to, ucs_memory_type_t, const void* from, ucs_memory_type_t, size_t count)
{
    const cuda::Driver& driver = *cuda::driver();
    const cuda::CurrentContext current(driver, test_context()->handle());
    CUresult result = driver.cuMemcpy(reinterpret_cast<CUdeviceptr>(to),
                                      reinterpret_cast<CUdeviceptr>(from), count);
    if (result == CUDA_SUCCESS) {
        result = driver.cuStreamSynchronize(nullptr);
    }
    if (result != CUDA_SUCCESS) {
        log_failure("copying CUDA memory", result);
    }
}

void* fill(void* to, int value, size_t count)
{
    const cuda::Driver& driver = *cuda::driver();
    const cuda::CurrentContext current(driver, test_context()->handle());
    CUresult result = driver.cuMemsetD8(reinterpret_cast<CUdeviceptr>(to),
                                        static_cast<unsigned char>(value), count);
    if (result == CUDA_SUCCESS) {
        result = driver.cuStreamSynchronize(nullptr);
    }
    if (result != CUDA_SUCCESS) {
        log_failure("filling CUDA memory", result);
    }
    return to;
}

constexpr abi::PerftestAllocator kDevice{UCS_MEMORY_TYPE_CUDA, init, alloc_device,
                                         free_registered,      copy, fill};
constexpr abi::PerftestAllocator kManaged{
    UCS_MEMORY_TYPE_CUDA_MANAGED, init, alloc_managed, free_registered, copy, fill};

} // namespace

PerftestAllocators& perftest_allocators()
{
    static constinit PerftestAllocators instance("ucx_perf_mem_type_allocators");
    return instance;
}

bool PerftestAllocators::make()
{
    auto** const table = static_cast<const void**>(dlsym(RTLD_DEFAULT, name_));
    if (table == nullptr) {
        return false;
    }
    if (!perftest::is_table(table)) {
        warn_of_structures("its table of allocators is another one");
        return false;
    }
    table_ = table;
    device_before_ = std::exchange(table_[UCS_MEMORY_TYPE_CUDA], &kDevice);
    managed_before_ = std::exchange(table_[UCS_MEMORY_TYPE_CUDA_MANAGED], &kManaged);
    return true;
}

void PerftestAllocators::take_back()
{
    table_[UCS_MEMORY_TYPE_CUDA] = device_before_;
    table_[UCS_MEMORY_TYPE_CUDA_MANAGED] = managed_before_;
}

std::optional<unsigned> PerftestAllocators::begin_test(const void* context)
{
    const auto rank = perftest::rank(context);
    if (!rank) {
        warn_of_structures("a test's context is another one");
        undo();
    }
    return rank;
}

} // namespace gdr::host
