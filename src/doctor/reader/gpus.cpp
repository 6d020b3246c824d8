// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Finding GPUs.
#include "doctor/reader/gpus.hpp"

#include "doctor/reader/text.hpp"

#include <cstdlib>
#include <sstream>

namespace gdr::doctor {
namespace {

const Path kDevices = "/sys/bus/pci/devices";

// The second line of "resource": where it begins, where it ends, what it is.
std::optional<uint64_t> bar1(const Root& root, const Path& directory)
{
    const auto entries = lines(root.read(directory / "resource").text);
    if (entries.size() < 2) {
        return std::nullopt;
    }
    char* rest = nullptr;
    const uint64_t begin = std::strtoull(entries[1].c_str(), &rest, 16);
    const uint64_t end = std::strtoull(rest, nullptr, 16);
    if (end <= begin) {
        return std::nullopt;
    }
    return end - begin + 1;
}

// "Model: \t\t NVIDIA H200"
std::string told(const Root& root, const std::string& address, const std::string& what)
{
    const Path file = "/proc/driver/nvidia/gpus/" + address + "/information";
    for (const std::string& line : lines(root.read(file).text)) {
        if (line.starts_with(what)) {
            return trimmed(line.substr(what.size()));
        }
    }
    return {};
}

bool is_gpu_file(const std::string& name)
{
    return name.starts_with("nvidia") && name.size() > 6 && name[6] >= '0' && name[6] <= '9';
}

} // namespace

std::vector<Gpu> find_gpus(const Root& root)
{
    std::vector<Gpu> gpus;
    for (const std::string& address : root.list(kDevices)) {
        const Path directory = kDevices / address;
        // Display and compute controllers.
        if (root.line(directory / "vendor") == "0x10de" &&
            root.line(directory / "class").starts_with("0x03")) {
            gpus.push_back({read_place(root, directory), told(root, address, "Model:"),
                            told(root, address, "GPU UUID:"), bar1(root, directory)});
        }
    }
    return gpus;
}

GpuDriver find_gpu_driver(const Root& root)
{
    GpuDriver driver;
    const auto told = root.read("/proc/driver/nvidia/version");
    driver.is_loaded = static_cast<bool>(told);
    driver.is_open = told.text.find("Open Kernel Module") != std::string::npos;
    std::istringstream words(told.text.substr(0, told.text.find('\n')));
    for (std::string word; driver.version.empty() && words >> word;) {
        if (std::isdigit(static_cast<unsigned char>(word[0])) &&
            word.find('.') != std::string::npos) {
            driver.version = word;
        }
    }
    driver.has_peermem = root.exists("/sys/module/nvidia_peermem") ||
                         root.exists("/sys/kernel/mm/memory_peers/nv_mem/version");
    for (const std::string& name : root.list("/dev", "nvidia")) {
        driver.has_gpu_file |= is_gpu_file(name);
    }
    return driver;
}

} // namespace gdr::doctor
