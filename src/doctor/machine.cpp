// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Looking at a machine.
#include "doctor/machine.hpp"

#include <algorithm>

namespace gdr::doctor {
namespace {

bool is_container(const Root& root)
{
    if (root.exists("/run/.containerenv") || root.exists("/.dockerenv") ||
        root.facts().environment.contains("container")) {
        return true;
    }
    const std::string group = root.read("/proc/1/cgroup").text;
    return std::ranges::any_of(
        std::initializer_list<const char*>{"docker", "kubepods", "containerd", "/lxc"},
        [&](const char* name) { return group.find(name) != std::string::npos; });
}

} // namespace

Machine::Machine(const Root& its_root)
    : root(its_root), command(read_command(root)), loader(root, command), hcas(find_hcas(root)),
      gpus(find_gpus(root)), driver(find_gpu_driver(root)), mpi(find_mpi(root, command, loader)),
      ucx(find_ucx(root, command, loader, mpi)), settings(read_settings(root, command, ucx.libucs)),
      in_container(is_container(root)), libcuda(loader.find("libcuda.so.1"))
{
}

bool Machine::has_emulated_hcas() const
{
    const std::string preloaded = command.variable("LD_PRELOAD");
    return preloaded.find("libsofthca.so") != std::string::npos ||
           preloaded.find("libsoftmlx5.so") != std::string::npos;
}

bool Machine::has_emulated_gpus() const
{
    return root.resolved(libcuda).native().find("softcuda") != std::string::npos;
}

} // namespace gdr::doctor
