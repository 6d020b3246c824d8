// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The machine's GPUs.
#include "emu/softcuda/machine.hpp"

#include "doctor/reader/gpus.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

namespace softcuda {

namespace {

/// The PCI domain of devices that are of no dump: none that a machine uses, so that nobody takes
/// them for devices in sysfs. Their bus numbers begin with 1.
constexpr unsigned kPciDomain = 0xc0da;

constexpr int kMostDevices = 16;

struct Gpu {
    PciAddress address;
    std::string model;
};

std::optional<PciAddress> parse(const char* text)
{
    PciAddress address{};
    unsigned function = 0;
    const int fields =
        std::sscanf(text, "%x:%x:%x.%x", &address.domain, &address.bus, &address.device, &function);
    return fields >= 3 && function == 0 ? std::optional(address) : std::nullopt;
}

std::vector<Gpu> find_gpus()
{
    std::vector<Gpu> gpus;
    if (const char* dump = std::getenv("GDR_MACHINE")) {
        const gdr::doctor::Root root(gdr::doctor::Path(dump) / "root", {});
        for (const gdr::doctor::Gpu& gpu : gdr::doctor::find_gpus(root)) {
            if (const auto address = parse(gpu.pci.address.c_str())) {
                gpus.push_back({*address, gpu.model});
            }
        }
        return gpus;
    }
    const char* text = std::getenv("SOFTCUDA_DEVICES");
    const int count = text == nullptr ? 2 : std::clamp(std::atoi(text), 0, kMostDevices);
    for (int number = 0; number < count; ++number) {
        gpus.push_back(
            {{kPciDomain, static_cast<unsigned>(number) + 1, 0}, "softcuda emulated GPU"});
    }
    return gpus;
}

// Anew each time: tests change the variables.
Gpu gpu(int number)
{
    return find_gpus().at(static_cast<size_t>(number));
}

} // namespace

int devices_of_machine()
{
    return static_cast<int>(find_gpus().size());
}

PciAddress pci_address_of(int number)
{
    return gpu(number).address;
}

std::string model_of(int number)
{
    return gpu(number).model;
}

int number_at(const char* pci_address)
{
    const std::vector<Gpu> gpus = find_gpus();
    const auto address = parse(pci_address);
    const auto found =
        std::ranges::find_if(gpus, [&](const Gpu& gpu) { return gpu.address == address; });
    return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
}

} // namespace softcuda
