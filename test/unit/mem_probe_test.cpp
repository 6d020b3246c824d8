// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/mem: which GPUs are tried for GPUDirect RDMA, and whose contexts are made for that.
#include "mem/cache.hpp"

#include <gtest/gtest.h>

#include <cstdint>
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
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), output)) > 0;)
        text.append(buffer, n);
    pclose(output);
    return text;
}

bool says(const std::string& text, const std::string& line_begins, const std::string& words)
{
    const size_t line = text.find(line_begins);
    return line != std::string::npos &&
           text.substr(line, text.find('\n', line) - line).find(words) != std::string::npos;
}

TEST(Probe, goes_on_when_the_first_gpu_cannot_be_tried)
{
    const std::string full = report_with("SOFTCUDA_MEMORY=4K,4G");
    EXPECT_TRUE(says(full, "GPU 0 ", "not tried yet: no device memory")) << full;
    EXPECT_TRUE(says(full, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << full;
    EXPECT_TRUE(says(full, "possible", "yes")) << full;
    EXPECT_TRUE(says(full, "only others than 0 taken", "no")) << full; // it may be
}

TEST(Probe, takes_no_exclusive_gpu_from_its_owner)
{
    const std::string one = report_with("SOFTCUDA_COMPUTE_MODE=exclusive,default");
    EXPECT_TRUE(says(one, "GPU 0 ", "not tried yet: its compute mode")) << one;
    EXPECT_TRUE(says(one, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << one;
    const std::string all = report_with("SOFTCUDA_COMPUTE_MODE=exclusive");
    EXPECT_TRUE(says(all, "GPU 1 ", "not tried yet: its compute mode")) << all;
    EXPECT_TRUE(says(all, "possible", "yes")) << all;
    const std::string no_dmabuf =
        report_with("SOFTCUDA_COMPUTE_MODE=exclusive SOFTHCA_GPU_DIRECT=none");
    EXPECT_TRUE(says(no_dmabuf, "possible", "no")) << no_dmabuf;
}

TEST(Probe, tries_one_gpu_of_a_model_that_is_refused)
{
    const std::string refused = report_with("SOFTHCA_GPU_DIRECT=none");
    EXPECT_TRUE(says(refused, "GPU 0 ", "no GPUDirect RDMA")) << refused;
    EXPECT_EQ(refused.find("GPU 1 "), std::string::npos) << refused;
}

TEST(Probe, leaves_out_a_gpu_that_could_not_be_told_of_what_arrived)
{
    const std::string one = report_with("SOFTCUDA_RDMA_ORDERING=none,flush");
    EXPECT_TRUE(says(one, "GPU 0 ", "no GPUDirect RDMA")) << one;
    EXPECT_TRUE(says(one, "GPU 0 ", "has no flush")) << one;
    EXPECT_TRUE(says(one, "GPU 1 ", "GPUDirect RDMA by dmabuf")) << one;
    EXPECT_TRUE(says(one, "possible", "yes")) << one;
    // Its memory is staged as managed memory is: see copy/memory_domain.cpp.
    EXPECT_TRUE(says(one, "only others than 0 taken", "yes")) << one;
    EXPECT_TRUE(says(one, "only others than 1 taken", "no")) << one;
    const std::string all = report_with("SOFTCUDA_RDMA_ORDERING=none");
    EXPECT_TRUE(says(all, "possible", "no")) << all;
    EXPECT_TRUE(says(all, "only others than 0 taken", "no")) << all;
}

// What one HCA takes and another refuses is taken.
TEST(Probe, says_that_only_other_gpus_are_taken)
{
    static CUdevice next = 40; // what is decided is so for the whole process
    const CUdevice taken = next++, refused = next++, untried = next++;
    verbs::Device hca("softhca0");
    verbs::ProtectionDomain pd(ibv_alloc_pd(hca.context()));
    GpuDirect one(hca, pd.get()), another(hca, pd.get());
    one.decide(taken, Method::dmabuf);
    one.decide(refused, Method::none);
    EXPECT_TRUE(only_others_taken(refused));
    EXPECT_FALSE(only_others_taken(taken));
    EXPECT_FALSE(only_others_taken(untried));
    another.decide(refused, Method::dmabuf);
    EXPECT_FALSE(only_others_taken(refused));
}

TEST(Probe, makes_a_context_once_for_all_hcas)
{
    const cuda::Driver* driver = cuda::driver();
    ASSERT_NE(driver, nullptr) << cuda::unavailable_reason();
    const auto is_active = [&] {
        unsigned flags = 0;
        int active = 0;
        EXPECT_EQ(driver->cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
        return active != 0;
    };
    const auto retained = reinterpret_cast<uint64_t (*)(const char*)>(
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "softcuda_call_count"));
    ASSERT_FALSE(is_active());
    const uint64_t before = retained("cuDevicePrimaryCtxRetain");
    verbs::Device hca("softhca0");
    verbs::ProtectionDomain pd(ibv_alloc_pd(hca.context()));
    Cache first(hca, pd.get(), true), second(hca, pd.get(), true);
    EXPECT_EQ(retained("cuDevicePrimaryCtxRetain") - before, 1u);
    static char page[4096];
    for (Cache* cache : {&first, &second}) {
        EXPECT_TRUE(is_active());
        Failure failure;
        Region* region = cache->acquire(reinterpret_cast<uintptr_t>(page), sizeof(page),
                                        Access::remote, &failure);
        ASSERT_NE(region, nullptr) << failure.cause;
        Cache::release(region);
    }
    EXPECT_FALSE(is_active());
}

} // namespace
} // namespace gdr::mem
