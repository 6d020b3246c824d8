// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What follows from the transfers between two hosts: whether they work, and which link is slow.
#include "doctor/pair.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace gdr::doctor {
namespace {

using enum Consequence;

// Of the rate of the slowest link; headers and flow control of PCIe and of the network take some.
constexpr double kGoodPart = 0.7;
constexpr double kHighLatency = 20; // microseconds, host memory; an HCA needs 1 to 4

const char* const kSayNothing = "emulated devices: figures say nothing";

std::string number(double value)
{
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f", value);
    return text;
}

std::string name_of(const Ports& ports)
{
    if (ports.near.empty()) {
        return "UCX's own choice of devices";
    }
    return ports.near + (ports.far.empty() || ports.far == ports.near ? "" : " with " + ports.far);
}

const Figures* figures_of(const Attempt& attempt, const std::string& memory)
{
    const auto found = std::ranges::find(attempt.figures, memory, &Figures::memory);
    return found == attempt.figures.end() ? nullptr : &*found;
}

const Route* route_of(const RankReport& report, const std::string& port)
{
    const auto found = std::ranges::find(report.routes, port, &Route::port);
    return found == report.routes.end() ? nullptr : &*found;
}

// The links between the memories of two hosts.
class Chain {
  public:
    Chain(const Attempt& attempt, const RankReport& near, const RankReport& far)
        : ends_{{near.host, route_of(near, attempt.ports.near)},
                {far.host, route_of(far, attempt.ports.far)}}
    {
    }

    // The slowest of the links that are known, with its host's name.
    std::optional<Link> slowest(bool with_gpus) const
    {
        std::optional<Link> slowest;
        for (const End& end : ends_) {
            if (end.route == nullptr) {
                continue;
            }
            std::vector<Link> links = end.route->of_hca;
            if (with_gpus) {
                links.insert(links.end(), end.route->of_gpu.begin(), end.route->of_gpu.end());
            }
            for (const Link& link : links) {
                if (!slowest || link.rate < slowest->rate) {
                    slowest = Link{link.name + " on " + end.host, link.rate};
                }
            }
        }
        return slowest;
    }

    // Why GPU memory is slower than host memory; empty: nothing is known.
    std::string way_to_gpus() const
    {
        const std::string good = topology::name_of(topology::Distance::same_switch);
        for (const End& end : ends_) {
            if (end.route != nullptr && !end.route->gpu.empty() && end.route->distance != good) {
                return "GPU " + end.route->gpu + " and " + end.route->port + " on " + end.host +
                       " are far from each other (" + end.route->distance +
                       "): what they send each other goes through the processor";
            }
        }
        return "GPU and HCA are under one switch, but what they send each other does not take the "
               "short way: ACS or an IOMMU (pci.iommu)";
    }

  private:
    struct End {
        std::string host;
        const Route* route;
    };
    const End ends_[2];
};

bool is_staged(const Attempt& attempt)
{
    return attempt.staged_bytes > attempt.direct_bytes;
}

Result started(const Attempt& attempt)
{
    if (attempt.connected) {
        return pass("both sides start, and UCX connects them");
    }
    return fail("no transfers by " + name_of(attempt.ports) + ": " + attempt.ended_by, "");
}

Result registered(const Attempt& attempt)
{
    if (!attempt.refused.empty()) {
        return fail(name_of(attempt.ports) + ": " + attempt.refused[0], "ucx-gdr info")
            .with_detail(joined({attempt.refused.begin() + 1, attempt.refused.end()}, "; "));
    }
    if (is_staged(attempt)) {
        Result result = fail(name_of(attempt.ports) +
                                 ": GPU memory is staged: it is copied through host memory",
                             "ucx-gdr info");
        const auto reason = std::ranges::find_if(attempt.log, [](const std::string& line) {
            return line.find("no GPUDirect RDMA") != std::string::npos;
        });
        result.detail = reason == attempt.log.end() ? "" : *reason;
        return result;
    }
    if (figures_of(attempt, "device") == nullptr) {
        return attempt.connected ? pass("host memory is registered; there is no GPU")
                                 : skipped("there were no transfers");
    }
    return attempt.direct_bytes > 0 ? pass("memory of hosts and GPUs is registered")
                                    : unknown("gdr moved no bytes of GPU memory");
}

Result right(const Attempt& attempt)
{
    if (!attempt.wrong.empty()) {
        return fail(name_of(attempt.ports) + " brought wrong bytes: " + attempt.wrong[0], "")
            .with_detail(std::to_string(attempt.wrong.size()) + " of " +
                         std::to_string(attempt.transfers) + " transfers");
    }
    if (attempt.connected && !attempt.ended_by.empty()) {
        Result result =
            fail(name_of(attempt.ports) + ": a transfer failed: " + attempt.ended_by, "");
        if (is_staged(attempt) || !attempt.refused.empty()) {
            result.consequence = no_gpudirect; // pair.register has the cause
        }
        return result;
    }
    return attempt.transfers == 0
               ? skipped("there were no transfers")
               : pass("every byte of " + std::to_string(attempt.transfers) + " transfers is right");
}

Result quick(const Attempt& attempt, bool emulated)
{
    const Figures* host = figures_of(attempt, "host");
    if (host == nullptr || emulated) {
        return skipped(emulated ? kSayNothing : "there were no transfers");
    }
    if (host->latency < kHighLatency) {
        return pass("8 bytes take " + number(host->latency) + " us");
    }
    return fail(name_of(attempt.ports) + ": 8 bytes of host memory take " + number(host->latency) +
                    " us, where an HCA needs 1 to 4",
                "ucx_info -d")
        .with_detail("does UCX take another device (UCX_TLS, UCX_NET_DEVICES)? Do processors save "
                     "power (cpu.power)?");
}

double slower_way(const Figures& figures)
{
    return std::min(figures.there, figures.back);
}

Result fast(const Attempt& attempt, const Chain& chain, bool emulated)
{
    const Figures* host = figures_of(attempt, "host");
    const Figures* device = figures_of(attempt, "device");
    const std::optional<Link> of_host = chain.slowest(false);
    if (host == nullptr || emulated) {
        return skipped(emulated ? kSayNothing : "there were no transfers");
    }
    if (!of_host) {
        return unknown("the system shows no speed of the links");
    }
    const auto says = [&](const std::string& memory, double measured, const Link& link) {
        return name_of(attempt.ports) + ": " + memory + " memory has " + number(measured) +
               " GB/s of the " + number(link.rate) + " of " + link.name;
    };
    if (slower_way(*host) < kGoodPart * of_host->rate) {
        return fail(says("host", slower_way(*host), *of_host), "")
            .with_detail(
                "GPUs have no part in it: the network between the ports (roce.mtu, "
                "ib.counters, other traffic), or the way between memory and HCA (pci.link, "
                "pci.iommu)");
    }
    const Link of_all = *chain.slowest(true);
    if (device != nullptr && slower_way(*device) < kGoodPart * of_all.rate) {
        return fail(says("GPU", slower_way(*device), of_all), "")
            .with_detail(is_staged(attempt)
                             ? "it is staged: copied through host memory (pair.register)"
                             : chain.way_to_gpus());
    }
    const Link& slowest = device == nullptr ? *of_host : of_all;
    const std::string text = says(device == nullptr ? "host" : "GPU",
                                  slower_way(device == nullptr ? *host : *device), slowest);
    if (slowest.name.starts_with("the port ")) {
        return pass(text);
    }
    return fail(text, "").with_detail(
        "the port could do more: this is the slow link of the chain (another slot, pci.link)");
}

void add(const char* id, Consequence consequence, std::vector<Result> results,
         std::vector<Finding>* findings)
{
    // What failed, each; or else one that stands for all, the best known.
    std::ranges::stable_sort(results, {}, [](const Result& result) {
        return result.status == Status::fail      ? 0
               : result.status == Status::unknown ? 1
               : result.status == Status::pass    ? 2
                                                  : 3;
    });
    for (const Result& result : results) {
        if (result.status == Status::fail || &result == &results.front()) {
            findings->push_back({id, result.consequence.value_or(consequence), result});
        }
    }
}

} // namespace

std::vector<Finding> findings_of(const std::vector<Attempt>& attempts, const RankReport& near,
                                 const RankReport& far, bool emulated)
{
    std::vector<Result> results[5];
    for (const Attempt& attempt : attempts) {
        results[0].push_back(started(attempt));
        results[1].push_back(registered(attempt));
        results[2].push_back(right(attempt));
        results[3].push_back(fast(attempt, Chain(attempt, near, far), emulated));
        results[4].push_back(quick(attempt, emulated));
    }
    std::vector<Finding> findings;
    add("pair.connect", cannot_run, results[0], &findings);
    add("pair.register", no_gpudirect, results[1], &findings);
    add("pair.transfer", cannot_run, results[2], &findings);
    add("pair.bandwidth", loss, results[3], &findings);
    add("pair.latency", loss, results[4], &findings);
    return findings;
}

} // namespace gdr::doctor
