// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
//     ucx-gdr-pin [LOCAL-RANK]
//
// for "ucx-gdr run --pin": prints the ports for UCX_NET_DEVICES, separated by commas. A rank uses
// the GPU of its number among those that CUDA_VISIBLE_DEVICES leaves, and a process that is no rank
// all of them.
#include "doctor/dump.hpp"
#include "doctor/reader/text.hpp"
#include "doctor/topology.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace {

using namespace gdr::doctor;

// The GPUs' numbers in the order of PCI addresses, which is CUDA's where all are alike.
std::vector<size_t> visible(const std::vector<Gpu>& gpus)
{
    std::vector<size_t> numbers(gpus.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list == nullptr) {
        return numbers;
    }
    numbers.clear();
    for (const std::string& entry : split(list, ',')) {
        const bool is_number = std::ranges::all_of(
            entry, [](unsigned char letter) { return std::isdigit(letter) != 0; });
        const auto gpu =
            is_number ? std::ranges::find_if(gpus,
                                             [&](const Gpu& other) {
                                                 return static_cast<size_t>(&other - gpus.data()) ==
                                                        std::stoul(entry);
                                             })
                      : std::ranges::find(gpus, entry, &Gpu::uuid);
        if (gpu == gpus.end()) {
            break;
        }
        numbers.push_back(static_cast<size_t>(gpu - gpus.begin()));
    }
    return numbers;
}

int print_ports(const char* rank)
{
    const char* dump = std::getenv("GDR_MACHINE");
    const Root root = dump == nullptr ? Root("", facts_of_this_process({})) : read_dump(dump);
    const Machine machine(root);
    std::vector<size_t> gpus = visible(machine.gpus);
    if (rank != nullptr && !gpus.empty()) {
        gpus = {gpus[std::strtoul(rank, nullptr, 10) % gpus.size()]};
    }
    const std::vector<Served> map = served(machine);
    std::vector<std::string> names;
    for (const size_t gpu : gpus) {
        for (const Served::By& by : map[gpu].ports) {
            if (std::ranges::find(names, by.port->name) == names.end()) {
                names.push_back(by.port->name);
            }
        }
    }
    std::printf("%s\n", joined(names, ",").c_str());
    return names.empty();
}

} // namespace

int main(int argc, char** argv)
{
    try {
        return print_ports(argc > 1 ? argv[1] : nullptr);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ucx-gdr run --pin: %s\n", error.what());
        return 1;
    }
}
