// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a dump tells of an HCA, as a profile.
#include "emu/softhca/machine.hpp"

#include "doctor/reader/hcas.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>

namespace softhca {
namespace {

using namespace gdr::doctor;

struct DriversProfile {
    std::string_view driver, profile;
};
constexpr DriversProfile kProfiles[] = {
    {"mlx5_core", "cx7"}, {"mlx4_core", "cx3"}, {"bnxt_en", "thor"}, {"ice", "e810"},
    {"hns3", "hip09"},    {"qede", "qedr"},     {"hfi1", "hfi1"},    {"vmw_pvrdma", "pvrdma"},
    {"efa", "efa"},       {"mana", "mana"},     {"ionic", "ionic"},  {"i40e", "iwarp"},
};

std::string profile_of_driver(const std::string& driver)
{
    const auto* const found = std::ranges::find(kProfiles, driver, &DriversProfile::driver);
    return std::string(found == std::end(kProfiles) ? "softhca" : found->profile);
}

// "400 Gb/sec (4X NDR)"
std::string speed(const std::string& rate)
{
    const size_t width = rate.find('('), speed = rate.find("X ");
    const size_t end = rate.find(')');
    if (width == std::string::npos || speed == std::string::npos || end == std::string::npos ||
        speed < width || end < speed) {
        return {};
    }
    std::string word = rate.substr(speed + 2, end - speed - 2);
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    return ",width=" + rate.substr(width + 1, speed - width - 1) + ",speed=" + word;
}

// "7fff+8012"
std::string pkeys(const Root& root, const Path& port)
{
    std::string keys;
    for (const std::string& index : root.list(port / "pkeys")) {
        keys += (keys.empty() ? ",pkeys=" : "+") + root.line(port / "pkeys" / index).substr(2);
    }
    return keys;
}

std::string profile(const Root& root, const Hca& hca)
{
    std::string list = hca.manages_switches ? "nvswitch_port" : profile_of_driver(hca.driver);
    if (!hca.ports.empty()) { // softhca has one
        const Port& port = hca.ports[0];
        list += port.is_ethernet() ? ",link_layer=ethernet" : ",link_layer=infiniband";
        list += speed(port.rate) + pkeys(root, port.directory);
    }
    return list;
}

} // namespace

std::vector<HcaOfMachine> hcas_of_machine(const std::string& dump)
{
    const Root root(Path(dump) / "root", {});
    std::vector<HcaOfMachine> all;
    for (const Hca& hca : find_hcas(root)) {
        all.push_back({hca.name, profile(root, hca)});
    }
    // As the kernel numbers them: mlx5_2 is before mlx5_10.
    std::ranges::sort(all, {}, [](const HcaOfMachine& hca) {
        return std::make_tuple(hca.name.size(), hca.name);
    });
    return all;
}

} // namespace softhca
