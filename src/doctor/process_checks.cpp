// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Checks of memory hooks, fork, processors.
#include "doctor/checks.hpp"

#include "doctor/reader/text.hpp"

#include <cstdio>

namespace gdr::doctor {
namespace {

constexpr int kCopiesForChildren[] = {5,
                                      12}; // pinned pages are copied by fork() from this Linux on

bool is_no(const std::string& value)
{
    return value == "n" || value == "no" || value == "off" || value == "0";
}

} // namespace

Result memory_hooks(const Machine& machine)
{
    for (const char* name : {"UCX_MEM_EVENTS", "UCX_MEM_MMAP_HOOK_MODE"}) {
        const Setting* setting = machine.settings.find(name);
        if (setting != nullptr && (is_no(setting->value) || setting->value == "none")) {
            return fail(std::string(name) + "=" + setting->value + " (" + setting->origin() +
                            ") switches UCX's memory hooks off: host memory is registered anew for "
                            "each transfer",
                        std::string("unset ") + name)
                .seen_in(setting->file.empty() ? name : setting->origin(), setting->value);
        }
    }
    return pass("UCX's memory hooks are on");
}

Result fork_is_safe(const Machine& machine)
{
    const std::string& release = machine.root.facts().kernel;
    int major = 0;
    int minor = 0;
    if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2) {
        return unknown("the kernel's release is not known");
    }
    if (major > kCopiesForChildren[0] ||
        (major == kCopiesForChildren[0] && minor >= kCopiesForChildren[1])) {
        return pass("Linux " + release + " copies pinned pages for children");
    }
    const bool is_off = is_no(machine.settings.value("UCX_GDR_RC_FORK_INIT"));
    if (is_off && machine.command.variable("RDMAV_FORK_SAFE").empty()) {
        return fail("programs that fork may crash: Linux " + release +
                        " is older than 5.12, and UCX_GDR_RC_FORK_INIT is off",
                    "export RDMAV_FORK_SAFE=1");
    }
    return fail("Linux " + release + " is older than 5.12: children do not have registered pages",
                "")
        .as(Consequence::none);
}

Result processor_speed(const Machine& machine)
{
    const Path all = "/sys/devices/system/cpu";
    size_t slow = 0;
    size_t count = 0;
    std::string driver;
    for (const std::string& name : machine.root.list(all)) {
        const std::string governor = machine.root.line(all / name / "cpufreq/scaling_governor");
        if (!name.starts_with("cpu") || governor.empty()) {
            continue;
        }
        ++count;
        if (governor == "powersave") {
            ++slow;
            driver = machine.root.line(all / name / "cpufreq/scaling_driver");
        }
    }
    if (count == 0) {
        return unknown("the system does not show how it sets the processors' speed");
    }
    if (slow == 0) {
        return pass("no processor saves power");
    }
    Result result = fail(std::to_string(slow) + " of " + std::to_string(count) +
                             " processors have the governor powersave: small messages take longer",
                         "cpupower frequency-set -g performance");
    result.needs_root = true;
    result.evidence.push_back({all / "cpu0/cpufreq/scaling_governor", "powersave"});
    // These drivers raise the speed under load with this governor, too.
    if (driver == "intel_pstate" || driver.starts_with("amd-pstate")) {
        result.consequence = Consequence::none;
    }
    return result;
}

} // namespace gdr::doctor
