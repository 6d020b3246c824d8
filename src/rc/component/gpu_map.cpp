// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The map of GPUs and ports.
#include "rc/component/gpu_map.hpp"

#include "abi/context_settings.hpp"
#include "cuda/inventory.hpp"
#include "log/log.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>

namespace gdr::rc {
namespace {

constexpr double kGigabits = 8e-9; // of a byte

// Whether UCX_NET_DEVICES has the port.
bool is_chosen(const std::string& port)
{
    const std::string chosen = abi::context_setting("NET_DEVICES").value_or("all");
    return chosen == "all" || ("," + chosen + ",").find("," + port + ",") != std::string::npos;
}

// Looking for places and GPUs takes time that nobody else shall pay.
bool is_wanted()
{
    return log::enabled(log::Level::info);
}

} // namespace

topology::Port port_of_map(const std::string& name, const verbs::Device& device,
                           const verbs::Port& port)
{
    if (!is_wanted()) {
        return {name, {}, 0, port.ethernet};
    }
    const double rate = device.sysfs().rate(port.number);
    return {name, topology::place_of(device.sysfs().device()),
            rate > 0 ? rate : port.bandwidth * kGigabits, port.ethernet};
}

void log_gpu_map(const std::vector<topology::Port>& ports)
{
    static std::atomic<bool> logged = false;
    if (!is_wanted() || logged.exchange(true)) {
        return;
    }
    std::vector<topology::Port> chosen = ports;
    std::erase_if(chosen, [](const topology::Port& port) { return !is_chosen(port.name); });
    std::vector<topology::Place> gpus;
    std::ranges::transform(cuda::gpus_of_system(), std::back_inserter(gpus),
                           topology::place_of_pci);
    std::erase_if(gpus, [](const topology::Place& gpu) { return !gpu.exists(); }); // emulated ones
    const auto map = topology::assign(gpus, chosen);
    for (size_t gpu = 0; gpu < map.size() && !chosen.empty(); ++gpu) {
        std::string names;
        for (const size_t port : map[gpu].ports) {
            names += " " + chosen[port].name;
        }
        gdr_log(info, "GPU %s:%s (%s)", gpus[gpu].address.c_str(), names.c_str(),
                name_of(map[gpu].distance));
    }
}

} // namespace gdr::rc
