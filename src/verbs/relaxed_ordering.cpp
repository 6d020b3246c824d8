// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Which CPUs gain from relaxed ordering, and which HCAs have no other registrations.
#include "verbs/relaxed_ordering.hpp"

#include <fstream>
#include <mutex>
#include <set>
#include <string>

namespace gdr::verbs {
namespace {

// The line is "cpu family\t: 25", with the name ending at the first blank before the colon.
bool is_field(const std::string& line, const std::string& name, std::string* value)
{
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.find_last_not_of(" \t", colon - 1) + 1 != name.size() ||
        !line.starts_with(name)) {
        return false;
    }
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    *value = begin == std::string::npos ? "" : line.substr(begin);
    return true;
}

struct Names {
    std::mutex lock;
    std::set<std::string> names;
};

// By HCA, not by context: each HCA is asked once, however often it is opened.
Names& relaxed_alone()
{
    static auto& all = *new Names;
    return all;
}

} // namespace

bool gains_by_relaxed_ordering(const std::filesystem::path& cpuinfo)
{
    std::ifstream file(cpuinfo);
    std::string vendor, family, model, name;
    for (std::string line; std::getline(file, line) && !line.empty();) { // the first processor
        (void)(is_field(line, "vendor_id", &vendor) || is_field(line, "cpu family", &family) ||
               is_field(line, "model", &model) || is_field(line, "model name", &name));
    }
    constexpr const char *kSapphireRapids = "143", *kEmeraldRapids = "207";
    return (vendor == "AuthenticAMD" && name.find("EPYC") != std::string::npos) ||
           (vendor == "GenuineIntel" && family == "6" &&
            (model == kSapphireRapids || model == kEmeraldRapids));
}

bool has_relaxed_ordering_alone(const ibv_pd* pd)
{
    Names& all = relaxed_alone();
    const std::lock_guard guard(all.lock);
    return all.names.contains(ibv_get_device_name(pd->context->device));
}

void note_relaxed_ordering_alone(const ibv_pd* pd)
{
    Names& all = relaxed_alone();
    const std::lock_guard guard(all.lock);
    all.names.emplace(ibv_get_device_name(pd->context->device));
}

} // namespace gdr::verbs
