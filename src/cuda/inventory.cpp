// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looks for GPUs and kernel modules.
#include "cuda/inventory.hpp"

#include "cuda/nvml.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace gdr::cuda {

namespace {

bool exists(const std::string& path)
{
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

std::vector<std::string> gpus_of_kernel(const std::string& root)
{
    std::error_code ignored;
    std::vector<std::string> ids;
    for (const auto& gpu :
         std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", ignored)) {
        ids.push_back(gpu.path().filename());
    }
    std::ranges::sort(ids);
    return ids;
}

// CUDA stops reading the variable's list at the first entry that is no device.
bool all_are_hidden()
{
    const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
    return list != nullptr && (*list == '\0' || *list == '-' || *list == ',');
}

} // namespace

std::vector<std::string> gpus_of_system(const std::string& root)
{
    std::vector<std::string> ids = gpus_of_nvml();
    return ids.empty() ? gpus_of_kernel(root) : ids;
}

std::string why_no_gpu()
{
    if (all_are_hidden()) {
        return "CUDA_VISIBLE_DEVICES hides every device";
    }
    // The kernel's answer costs nothing, while initialising NVML takes 10 ms (H200, driver 580).
    if (gpus_of_kernel("").empty() && gpus_of_nvml().empty()) {
        return "no device: neither NVML (libnvidia-ml.so.1) nor /proc/driver/nvidia/gpus shows a "
               "GPU";
    }
    return {};
}

KernelSupport kernel_support(const std::string& root)
{
    std::ifstream file(root + "/proc/driver/nvidia/version");
    const std::string version(std::istreambuf_iterator<char>(file), {});
    if (version.empty()) {
        return {true, true};
    }
    return {version.find("Open Kernel Module") != std::string::npos,
            exists(root + "/sys/module/nvidia_peermem") ||
                exists(root + "/sys/module/nv_peer_mem")};
}

} // namespace gdr::cuda
