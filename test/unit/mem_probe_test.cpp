// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem: when GPUs are tried for GPUDirect RDMA, with what memory, and whose contexts are made
// for that.
#include "../emu/preload.hpp"

#include "cuda/allocation.hpp"
#include "mem/cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

namespace gdr::mem {
namespace {

// The report of a process with these settings; the emulation reads them once.
std::string report_with(const std::string& settings)
{
    const std::string command =
        "env " + settings + " /proc/" + std::to_string(getpid()) + "/exe --report";
    FILE* output = popen(command.c_str(), "r");
    EXPECT_NE(output, nullptr);
    std::string text;
    char buffer[512];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), output)) > 0;) {
        text.append(buffer, n);
    }
    pclose(output);
    return text;
}

bool says(const std::string& text, const std::string& line_begins, const std::string& words)
{
    const size_t line = text.find(line_begins);
    return line != std::string::npos &&
           text.substr(line, text.find('\n', line) - line).find(words) != std::string::npos;
}

TEST(Probe, does_not_judge_a_gpu_without_memory_for_a_test)
{
    const std::string full = report_with("SOFTCUDA_MEMORY=4K,4G");
    EXPECT_TRUE(says(full, "GPU 0 ", "not tried yet: no device memory")) << full;
    EXPECT_TRUE(says(full, "0 refused", "no")) << full; // it may be taken
    EXPECT_TRUE(says(full, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << full;
}

TEST(Probe, takes_no_exclusive_gpu_from_its_owner)
{
    const std::string one = report_with("SOFTCUDA_COMPUTE_MODE=exclusive,default");
    EXPECT_TRUE(says(one, "GPU 0 ", "not tried: its compute mode")) << one;
    EXPECT_TRUE(says(one, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << one;
}

TEST(Probe, leaves_out_a_gpu_that_could_not_be_told_of_what_arrived)
{
    const std::string one = report_with("SOFTCUDA_RDMA_ORDERING=none,flush");
    EXPECT_TRUE(says(one, "GPU 0 ", "no GPUDirect RDMA")) << one;
    EXPECT_TRUE(says(one, "GPU 0 ", "has no flush")) << one;
    EXPECT_TRUE(says(one, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << one;
    // Its memory is staged as managed memory is: see copy/memory_domain.cpp.
    EXPECT_TRUE(says(one, "0 refused", "yes")) << one;
    EXPECT_TRUE(says(one, "1 refused", "no")) << one;
}

// On a machine whose CPU and GPUs are joined by C2C, mlx5 takes what CUDA exports unless asked
// otherwise, other HCAs a mapping by PCIe alone. The report registers memory afterwards.
TEST(Probe, tries_the_mapping_by_pcie_where_the_other_one_is_refused)
{
    const std::string gb200 = report_with("SOFTCUDA_CPU_LINK=c2c SOFTHCA_PROFILE=peermem=no");
    EXPECT_TRUE(says(gb200, "GPU 0 ", "GPUDirect RDMA by dmabuf")) << gb200;
    EXPECT_FALSE(says(gb200, "GPU 0 ", "PCIe")) << gb200;
    const std::string other =
        report_with("SOFTCUDA_CPU_LINK=c2c SOFTHCA_PROFILE=dmabuf=pcie,peermem=no");
    EXPECT_TRUE(says(other, "GPU 0 ", "GPUDirect RDMA by dmabuf over PCIe")) << other;
    EXPECT_TRUE(says(other, "GPU 0 ", "not supported (errno 524)")) << other;
    EXPECT_TRUE(says(other, "surplus", "registered")) << other;
    const std::string usual = report_with("SOFTHCA_PROFILE=dmabuf=pcie,peermem=no");
    EXPECT_TRUE(says(usual, "GPU 0 ", "GPUDirect RDMA by dmabuf")) << usual;
    EXPECT_FALSE(says(usual, "GPU 0 ", "over PCIe")) << usual;
}

// What one HCA takes and another refuses is taken.
TEST(Probe, says_that_no_hca_takes_a_gpu)
{
    static CUdevice next = 40; // what is decided is so for the whole process
    const CUdevice taken = next++, refused = next++, untried = next++;
    verbs::Device hca(emulated_hca(0));
    verbs::ProtectionDomain pd(ibv_alloc_pd(hca.context()));
    GpuDirect one(hca, pd.get()), another(hca, pd.get());
    one.decide(taken, Method::dmabuf);
    one.decide(refused, Method::none);
    EXPECT_TRUE(is_refused(refused));
    EXPECT_FALSE(is_refused(taken));
    EXPECT_FALSE(is_refused(untried));
    another.decide(refused, Method::dmabuf);
    EXPECT_FALSE(is_refused(refused));
}

// Without CUDA, and without a context. In a process of its own, which nobody has initialised CUDA
// in.
TEST(Probe, tries_nothing_before_memory_of_a_gpu_is_there)
{
    const std::string command =
        "/proc/" + std::to_string(getpid()) +
        "/exe --gtest_also_run_disabled_tests --gtest_filter=Probe.DISABLED_*";
    EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Probe, DISABLED_tries_nothing_before_memory_of_a_gpu_is_there)
{
    const auto count = reinterpret_cast<uint64_t (*)(const char*)>(
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "softcuda_call_count"));
    const auto contexts = reinterpret_cast<uint64_t (*)(int)>(
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "softcuda_contexts"));
    verbs::Device hca(emulated_hca(0));
    verbs::ProtectionDomain pd(ibv_alloc_pd(hca.context()));
    Cache first(hca, pd.get(), true), second(hca, pd.get(), true);
    static char page[4096];
    const auto acquire = [&](const void* memory, MemoryKind kind) {
        for (Cache* cache : {&first, &second}) {
            Failure failure;
            Region* region = cache->acquire(reinterpret_cast<uintptr_t>(memory), sizeof(page),
                                            Access::remote, &failure);
            ASSERT_NE(region, nullptr) << failure.cause;
            EXPECT_EQ(region->kind, kind);
            Cache::release(region);
        }
    };
    EXPECT_TRUE(first.gpu_direct().possible());
    acquire(page, MemoryKind::host);
    EXPECT_EQ(count("cuInit"), 0u);
    EXPECT_EQ(count("cuPointerGetAttributes"), 2u); // by the HCA, what it registers

    const cuda::Driver* driver = cuda::driver();
    ASSERT_NE(driver, nullptr) << cuda::unavailable_reason();
    acquire(page + 1, MemoryKind::host);
    EXPECT_EQ(contexts(0), 0u);
    const cuda::PrimaryContext context(*driver, 0);
    void* memory = nullptr;
    ASSERT_EQ(
        cuda::allocate(*driver, cuda::MemoryKind::device, context.handle(), sizeof(page), &memory),
        CUDA_SUCCESS);
    const uint64_t allocations = count("cuMemAlloc");
    acquire(memory, MemoryKind::device);
    EXPECT_EQ(first.gpu_direct().method(0), Method::dmabuf);
    EXPECT_EQ(count("cuMemAlloc"), allocations); // what is there is tried
    EXPECT_EQ(contexts(0), 1u);
    EXPECT_EQ(contexts(1), 0u);
    cuda::release(*driver, memory);
}

// A special allocation tells nothing of its GPU.
TEST(Probe, tries_other_memory_where_this_is_refused)
{
    const cuda::Driver* driver = cuda::driver();
    ASSERT_NE(driver, nullptr) << cuda::unavailable_reason();
    verbs::Device hca(emulated_hca(0));
    verbs::ProtectionDomain pd(ibv_alloc_pd(hca.context()));
    GpuDirect gpu_direct(hca, pd.get());
    const cuda::PrimaryContext context(*driver, 0);
    static char page[4096];
    cuda::Pointer refused; // host memory, in truth
    refused.kind = cuda::MemoryKind::device;
    refused.device = 0;
    refused.base = reinterpret_cast<uintptr_t>(page);
    refused.length = sizeof(page);
    refused.context = context.handle();
    const std::string found = gpu_direct.learn(*driver, refused);
    EXPECT_NE(found.find("GPUDirect RDMA by dmabuf"), std::string::npos) << found;
    EXPECT_EQ(gpu_direct.learn(*driver, refused), "") << "it is known";
}

} // namespace
} // namespace gdr::mem
