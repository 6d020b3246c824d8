// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Read from /proc and from the emulated HCA's counters.
#include "growth.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../support/emulation.hpp"
#include "../support/failure.hpp"

namespace ucptest {
namespace {

constexpr long kMemorySlackKb = 16 << 10;
constexpr long kMemorySlackShare = 8; // of what was there

// The emulated HCA keeps its pipes into a process that was killed until another one has its place.
constexpr long kDescriptorSlack = 8;

constexpr long kRegistrationsSlack = 32;
constexpr long kRegistrationsSlackShare = 2; // of what was there

long status_kb(const std::string& field)
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(field + ":")) {
            return std::stol(line.substr(field.size() + 1));
        }
    }
    return 0;
}

long entries(const char* directory)
{
    return std::distance(std::filesystem::directory_iterator(directory), {});
}

void compare(std::string& found, const char* what, long before, long after, long slack)
{
    if (after > before + slack) {
        found += format("%s%ld %s instead of %ld", found.empty() ? "" : ", ", after, what, before);
    }
}

} // namespace

Holdings holdings()
{
    const Emulation emulation;
    const HcaCounters hca = emulation.hca();
    Holdings now{};
    now.memory_kb = status_kb("RssAnon");
    now.locked_kb = status_kb("VmLck");
    now.descriptors = entries("/proc/self/fd");
    now.threads = entries("/proc/self/task");
    now.queue_pairs = static_cast<long>(hca.queue_pairs - hca.queue_pairs_destroyed);
    now.registrations = static_cast<long>(hca.registrations + hca.registrations_peer +
                                          hca.registrations_dmabuf - hca.deregistrations);
    return now;
}

std::string growth(const Holdings& before, const Holdings& middle, const Holdings& after)
{
    std::string found;
    compare(found, "KiB of memory", before.memory_kb, after.memory_kb,
            kMemorySlackKb + before.memory_kb / kMemorySlackShare);
    compare(found, "KiB locked", before.locked_kb, after.locked_kb, 0);
    compare(found, "descriptors", before.descriptors, after.descriptors, kDescriptorSlack);
    compare(found, "threads", before.threads, after.threads, 0);
    compare(found, "queue pairs", before.queue_pairs, after.queue_pairs, 0);
    compare(found, "registrations", middle.registrations, after.registrations,
            kRegistrationsSlack + middle.registrations / kRegistrationsSlackShare);
    return found;
}

std::string remains(const Holdings& now)
{
    std::string found;
    compare(found, "queue pairs", 0, now.queue_pairs, 0);
    compare(found, "registrations", 0, now.registrations, 0);
    return found;
}

std::string text(const Holdings& now)
{
    return format("%.1f MiB, %ld KiB locked, %ld descriptors, %ld threads, %ld queue pairs, "
                  "%ld registrations",
                  static_cast<double>(now.memory_kb) / 1024, now.locked_kb, now.descriptors,
                  now.threads, now.queue_pairs, now.registrations);
}

} // namespace ucptest
