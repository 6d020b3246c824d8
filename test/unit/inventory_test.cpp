// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// src/cuda: what is told of GPUs and of NVIDIA's kernel modules without CUDA. /proc and /sys are
// directories of the test's.
#include "cuda/inventory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace gdr::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Inventory : public testing::Test {
  protected:
    Inventory() { std::filesystem::create_directories(root_ / "proc/driver/nvidia/gpus"); }
    ~Inventory() override
    {
        std::filesystem::remove_all(root_);
        unsetenv("SOFTCUDA_DEVICES");
        unsetenv("CUDA_VISIBLE_DEVICES");
    }

    void have(const std::string& directory)
    {
        std::filesystem::create_directories(root_ / directory);
    }
    void have_version(const std::string& text)
    {
        std::ofstream(root_ / "proc/driver/nvidia/version") << text;
    }

    const std::filesystem::path root_ =
        std::filesystem::temp_directory_path() / ("gdr-inventory-" + std::to_string(getpid()));
};

TEST_F(Inventory, ListsGpusOfNvmlElseOfTheKernel)
{
    if (dlopen("libnvidia-ml.so.1", RTLD_NOW) == nullptr) {
        GTEST_SKIP() << dlerror();
    }
    have("proc/driver/nvidia/gpus/0000:b8:00.0");
    have("proc/driver/nvidia/gpus/0000:18:00.0");
    setenv("SOFTCUDA_DEVICES", "1", 1);
    EXPECT_THAT(gpus_of_system(root_), ElementsAre("c0da:01:00.0"));
    setenv("SOFTCUDA_DEVICES", "0", 1);
    EXPECT_THAT(gpus_of_system(root_), ElementsAre("0000:18:00.0", "0000:b8:00.0"));
    EXPECT_THAT(gpus_of_system(root_ / "nowhere"), IsEmpty());
}

TEST_F(Inventory, SaysWhyThereIsNoGpu)
{
    setenv("SOFTCUDA_DEVICES", "2", 1);
    EXPECT_EQ(why_no_gpu(), "");
    for (const char* none : {"", "-1", ",0"}) {
        setenv("CUDA_VISIBLE_DEVICES", none, 1);
        EXPECT_THAT(why_no_gpu(), HasSubstr("CUDA_VISIBLE_DEVICES")) << none;
    }
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    EXPECT_EQ(why_no_gpu(), "");
}

TEST_F(Inventory, KnowsWhatKernelModulesOffer)
{
    const auto expect = [&](bool dmabuf, bool peermem) {
        const KernelSupport support = kernel_support(root_);
        EXPECT_EQ(support.dmabuf, dmabuf);
        EXPECT_EQ(support.peermem, peermem);
    };
    expect(true, true); // nothing is shown
    have_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01\n");
    expect(false, false);
    have("sys/module/nvidia_peermem");
    expect(false, true);
    have_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06\n");
    expect(true, true);
    std::filesystem::remove(root_ / "sys/module/nvidia_peermem");
    expect(true, false);
}

} // namespace
} // namespace gdr::cuda
