// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading of the environment variables that config.hpp lists.
#include "emu/softhca/config.hpp"

#include "emu/softhca/fault_rules.hpp"
#include "emu/softhca/machine.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace softhca {
namespace {

void complain(const char* variable, const char* value, const char* expected)
{
    std::fprintf(stderr, "softhca: %s=%s is not understood: expected %s; the default is used\n",
                 variable, value, expected);
}

bool is_fabric_name(std::string_view name)
{
    if (name.empty() || name.size() > 64) {
        return false;
    }
    for (char c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

// Sets a key in the profiles of this HCA and all further ones; false when the value is unknown.
bool set_all(Config& result, unsigned device, std::string_view key, std::string_view value)
{
    return std::all_of(result.profiles.begin() + device, result.profiles.end(),
                       [&](Profile& profile) { return set(profile, key, value); });
}

struct Word {
    std::string_view name;
    std::string_view key; // of a profile
};

// Sets the keys whose words are in the comma separated list to yes, and the others to no, in all
// profiles; false when a word is unknown.
bool parse_words(std::string_view list, std::initializer_list<Word> words, Config& result)
{
    unsigned seen = 0;
    while (true) {
        const std::size_t comma = list.find(',');
        const std::string_view name = list.substr(0, comma);
        const Word* const word = std::find_if(words.begin(), words.end(),
                                              [name](const Word& w) { return w.name == name; });
        if (word != words.end()) {
            seen |= 1u << (word - words.begin());
        } else if (name != "none") {
            return false;
        }
        if (comma == std::string_view::npos) {
            break;
        }
        list.remove_prefix(comma + 1);
    }
    for (const Word& word : words) {
        set_all(result, 0, word.key, (seen & 1) != 0 ? "yes" : "no");
        seen >>= 1;
    }
    return true;
}

// One value, or one for each HCA in turn, of which the last is that of all further ones: calls
// take(HCA, value) for each value. Returns their number, 0 when one is not taken or they are too
// many.
template <class Take>
unsigned parse_list(std::string_view list, char separator, const Take& take)
{
    for (unsigned device = 0; device < kMaxByVariable; ++device) {
        const std::size_t end = list.find(separator);
        if (!take(device, list.substr(0, end))) {
            return 0;
        }
        if (end == std::string_view::npos) {
            return device + 1;
        }
        list.remove_prefix(end + 1);
    }
    return 0;
}

// Reads the profiles; as many HCAs as they are.
void read_profiles(const char* value, Config& result)
{
    std::string wrong;
    const auto take = [&](unsigned device, std::string_view list) {
        Profile profile;
        if (!list.empty()) {
            wrong = apply(profile, list);
            profile.text = list;
        }
        std::fill(result.profiles.begin() + device, result.profiles.end(), profile);
        return wrong.empty();
    };
    result.devices = parse_list(value, ';', take);
    if (result.devices == 0) {
        complain("SOFTHCA_PROFILE", value,
                 wrong.empty() ? "up to 8 profiles, separated by semicolons"
                               : ("another word than " + wrong).c_str());
        result.devices = 1;
        result.profiles.fill({});
    }
}

// The HCAs of a machine's dump.
void read_machine(const char* dump, Config& result)
{
    result.devices = 0;
    for (const HcaOfMachine& hca : hcas_of_machine(dump)) {
        if (result.devices == kMaxDevices) {
            break;
        }
        Profile& profile = result.profiles[result.devices];
        result.names[result.devices++] = hca.name;
        if (const std::string wrong = softhca::apply(profile, hca.profile); !wrong.empty()) {
            complain("GDR_MACHINE", dump, ("another word than " + wrong).c_str());
        }
        profile.text = hca.profile;
    }
}

// Sets a field of every port from a list of numbers, 0 or in [least, most]; false when it is none.
bool parse_ports(const char* list, double least, double most, Config& result,
                 double PortSettings::*field)
{
    std::array<double, kMaxDevices> values;
    for (unsigned count = 0; count < kMaxByVariable; ++list) {
        char* end = nullptr;
        const double value = std::strtod(list, &end);
        if (end == list || (value != 0 && !(value >= least && value <= most)) ||
            (*end != ',' && *end != '\0')) {
            return false;
        }
        std::fill(values.begin() + count++, values.end(), value);
        list = end;
        if (*end == '\0') {
            for (unsigned i = 0; i < kMaxDevices; ++i) {
                result.ports[i].*field = values[i];
            }
            return true;
        }
    }
    return false;
}

// Ports that go down concern a whole fabric. Without a name, who has faults meets those who have
// the same, as the processes of a job do, and nobody else.
std::string default_fabric()
{
    const FaultRules& faults = fault_rules();
    if (faults.rules.empty()) {
        return "default";
    }
    std::uint64_t hash = 14695981039346656037u; // FNV-1a
    for (char c : faults.text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
    char name[32];
    std::snprintf(name, sizeof name, "faults-%016llx", static_cast<unsigned long long>(hash));
    return name;
}

// A variable's number from 1 to most, if there is one.
void read_number(const char* variable, unsigned most, const char* expected, unsigned& result)
{
    const char* const value = std::getenv(variable);
    if (value == nullptr) {
        return;
    }
    char* end = nullptr;
    const unsigned long number = std::strtoul(value, &end, 10);
    if (end != value && *end == '\0' && number >= 1 && number <= most) {
        result = static_cast<unsigned>(number);
    } else {
        complain(variable, value, expected);
    }
}

Config read_environment()
{
    Config result;
    result.fabric = default_fabric();
    if (const char* value = std::getenv("SOFTHCA_FABRIC")) {
        if (is_fabric_name(value)) {
            result.fabric = value;
        } else {
            complain("SOFTHCA_FABRIC", value, "up to 64 letters, digits, '.', '_' or '-'");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_PROFILE")) {
        read_profiles(value, result);
    }
    read_number("SOFTHCA_DEVICES", kMaxByVariable, "1 to 8", result.devices);
    read_number("SOFTHCA_PORTS", kMaxPortsEach, "1 or 2", result.ports_each);
    for (unsigned i = 0; i < kMaxDevices; ++i) {
        result.names[i] = "softhca" + std::to_string(i);
    }
    if (const char* value = std::getenv("GDR_MACHINE")) {
        read_machine(value, result);
    }
    if (const char* value = std::getenv("SOFTHCA_LINK_LAYER")) {
        if (!set_all(result, 0, "link_layer", value)) {
            complain("SOFTHCA_LINK_LAYER", value, "infiniband or ethernet");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_GPU_DIRECT")) {
        if (!parse_words(value, {{"dmabuf", "dmabuf"}, {"peermem", "peermem"}}, result)) {
            complain("SOFTHCA_GPU_DIRECT", value, "dmabuf, peermem, dmabuf,peermem or none");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_EXTENDED")) {
        if (!parse_words(
                value,
                {{"thread_domain", "td"}, {"cq", "cqx"}, {"wr", "wr"}, {"resize_cq", "resize_cq"}},
                result)) {
            complain("SOFTHCA_EXTENDED", value,
                     "thread_domain, cq, wr, resize_cq, several of them separated by commas, or "
                     "none");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_MEMLOCK")) {
        const std::string_view mode = value;
        if (mode == "enforce" || mode == "off") {
            result.memlock_enforced = mode == "enforce";
        } else {
            complain("SOFTHCA_MEMLOCK", value, "off or enforce");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_COPY_ON_FORK")) {
        const std::string_view mode = value;
        if (mode == "yes" || mode == "no") {
            result.copy_on_fork = mode == "yes";
        } else {
            complain("SOFTHCA_COPY_ON_FORK", value, "yes or no");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_GRH")) {
        const auto take = [&result](unsigned device, std::string_view word) {
            return set_all(result, device, "grh", word);
        };
        const auto before = result.profiles;
        if (parse_list(value, ',', take) == 0) {
            result.profiles = before;
            complain("SOFTHCA_GRH", value,
                     "optional or required, of up to 8 HCAs, separated by "
                     "commas");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_DEVICE_COPY")) {
        const std::string_view way = value;
        if (way == "alias" || way == "driver" || way == "staged") {
            result.copy_by_driver = way != "alias";
            result.copy_staged = way == "staged";
        } else {
            complain("SOFTHCA_DEVICE_COPY", value, "alias, driver or staged");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_PROCESSORS")) {
        const std::string_view which = value;
        if (which == "any" || which == "program") {
            result.on_programs_processors = which == "program";
        } else {
            complain("SOFTHCA_PROCESSORS", value, "any or program");
        }
    }
    if (const char* value = std::getenv("SOFTHCA_STATS")) {
        result.stats = std::string_view(value) == "1";
    }
    const struct {
        const char* variable;
        double PortSettings::*field;
        double least, most;
        const char* expected;
    } wire[] = {
        {"SOFTHCA_LATENCY_US", &PortSettings::latency_us, 0.001, 1e6,
         "microseconds, 0.001 to 1000000 or 0, of up to 8 HCAs, separated by commas"},
        {"SOFTHCA_BANDWIDTH_GBPS", &PortSettings::bandwidth_gbps, 0.1, 1e5,
         "gigabits a second, 0.1 to 100000 or 0, of up to 8 HCAs, separated by commas"},
        {"SOFTHCA_MESSAGE_RATE", &PortSettings::message_rate, 1, 1e9,
         "messages a second, 1 to 1e9 or 0, of up to 8 HCAs, separated by commas"},
    };
    for (const auto& setting : wire) {
        const char* value = std::getenv(setting.variable);
        if (value != nullptr &&
            !parse_ports(value, setting.least, setting.most, result, setting.field)) {
            complain(setting.variable, value, setting.expected);
        }
    }
    return result;
}

} // namespace

const Config& config()
{
    static const Config instance = read_environment();
    return instance;
}

} // namespace softhca
