// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucp_transfer: processes that exchange data through stock libucp and check every byte. The
// options choose the cases; all of them run over the same endpoints, one after another.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include <getopt.h>

#include "../support/cuda.hpp"
#include "../support/failure.hpp"
#include "transfer.hpp"

namespace ucptest {
namespace {

constexpr size_t kWindowBytes = 4 << 20; // of one peer and direction

const char* const kUsage =
    "usage: ucp_transfer [options]\n"
    "  --ops LIST        tag tag_unexpected tag_sync am am_eager am_rndv stream put get\n"
    "                    atomic_add atomic_fadd atomic_swap atomic_cswap atomic_bitwise\n"
    "  --kinds LIST      near:far of host, cuda, managed, or all of these; pool, vmm, fabric,\n"
    "                    segments: device memory of cuMemAllocAsync, of cuMemCreate (fabric: with\n"
    "                    fabric handles alone); slice: of an allocation of\n"
    "                    64 MiB more; imported: that no HCA takes; readonly: host memory to\n"
    "                    send from (default host:host)\n"
    "  --sizes LIST      bytes (default 0,1,7,8,63,4095,4097,65536,1048576,34603008)\n"
    "  --layouts LIST    near:far of contig, iov (default contig:contig)\n"
    "  --ranks N         2: a pair; N: N-1 to one and one to N-1 (default 2)\n"
    "  --window N        messages in flight to every peer, as far as they have no more than\n"
    "                    4 MiB together (default 4)\n"
    "  --iterations N    repeats every case (default 1)\n"
    "  --wakeup          sleep in poll() instead of polling\n"
    "  --client-server   connect through a listener instead of worker addresses\n"
    "  --peer-errors     UCP_ERR_HANDLING_MODE_PEER\n";

struct Options {
    std::vector<const Operation*> operations;
    std::vector<std::pair<MemoryKind, MemoryKind>> kinds{{MemoryKind::kHost, MemoryKind::kHost}};
    std::vector<size_t> sizes{0, 1, 7, 8, 63, 4095, 4097, 65536, 1 << 20, 33 << 20};
    std::vector<std::pair<bool, bool>> layouts{{false, false}}; // scattered
    int ranks = 2;
    size_t window = 4;
    unsigned iterations = 1;
    bool wakeup = false;
    bool client_server = false;
    bool peer_errors = false;
};

std::vector<std::string> split(const std::string& list, char separator)
{
    std::vector<std::string> parts;
    std::istringstream stream(list);
    for (std::string part; std::getline(stream, part, separator);) {
        parts.push_back(part);
    }
    return parts;
}

std::pair<std::string, std::string> split_pair(const std::string& text)
{
    const auto parts = split(text, ':');
    require(parts.size() == 2, text + " is not a near:far pair");
    return {parts[0], parts[1]};
}

std::vector<const Operation*> parse_operations(const std::string& list)
{
    std::vector<const Operation*> chosen;
    for (const std::string& name : split(list, ',')) {
        const auto found = std::find_if(operations().begin(), operations().end(),
                                        [&](const Operation& op) { return name == op.name; });
        require(found != operations().end(), "unknown operation " + name);
        chosen.push_back(&*found);
    }
    return chosen;
}

std::vector<std::pair<MemoryKind, MemoryKind>> parse_kinds(const std::string& list)
{
    std::vector<std::pair<MemoryKind, MemoryKind>> chosen;
    const std::string all = "host:host,host:cuda,host:managed,cuda:host,cuda:cuda,cuda:managed,"
                            "managed:host,managed:cuda,managed:managed";
    for (const std::string& text : split(list == "all" ? all : list, ',')) {
        const auto [near, far] = split_pair(text);
        chosen.emplace_back(memory_kind(near), memory_kind(far));
    }
    return chosen;
}

bool parse_layout(const std::string& text)
{
    require(text == "contig" || text == "iov", "unknown layout " + text);
    return text == "iov";
}

Options parse(int argc, char** argv)
{
    const option names[] = {{"ops", required_argument, nullptr, 'o'},
                            {"kinds", required_argument, nullptr, 'k'},
                            {"sizes", required_argument, nullptr, 's'},
                            {"layouts", required_argument, nullptr, 'l'},
                            {"ranks", required_argument, nullptr, 'r'},
                            {"window", required_argument, nullptr, 'w'},
                            {"iterations", required_argument, nullptr, 'i'},
                            {"wakeup", no_argument, nullptr, 'u'},
                            {"client-server", no_argument, nullptr, 'c'},
                            {"peer-errors", no_argument, nullptr, 'e'},
                            {nullptr, 0, nullptr, 0}};
    Options options;
    for (int choice; (choice = getopt_long(argc, argv, "", names, nullptr)) != -1;) {
        switch (choice) {
        case 'o':
            options.operations = parse_operations(optarg);
            break;
        case 'k':
            options.kinds = parse_kinds(optarg);
            break;
        case 's':
            options.sizes.clear();
            for (const std::string& text : split(optarg, ',')) {
                options.sizes.push_back(std::stoul(text));
            }
            break;
        case 'l':
            options.layouts.clear();
            for (const std::string& text : split(optarg, ',')) {
                const auto [near, far] = split_pair(text);
                options.layouts.emplace_back(parse_layout(near), parse_layout(far));
            }
            break;
        case 'r':
            options.ranks = std::stoi(optarg);
            break;
        case 'w':
            options.window = std::stoul(optarg);
            break;
        case 'i':
            options.iterations = static_cast<unsigned>(std::stoul(optarg));
            break;
        case 'u':
            options.wakeup = true;
            break;
        case 'c':
            options.client_server = true;
            break;
        case 'e':
            options.peer_errors = true;
            break;
        default:
            throw Failure(kUsage);
        }
    }
    require(optind == argc && options.ranks >= 2 && options.window > 0 && options.iterations > 0,
            kUsage);
    if (options.operations.empty()) {
        for (const Operation& operation : operations()) {
            options.operations.push_back(&operation);
        }
    }
    return options;
}

// Every rank makes the same list, so the numbers agree.
std::vector<Case> make_cases(const Options& options)
{
    std::vector<Case> cases;
    for (unsigned iteration = 0; iteration < options.iterations; ++iteration) {
        for (const Operation* operation : options.operations) {
            for (const auto& [near, far] : options.kinds) {
                Case c{operation, sizeof(uint64_t), near, far, false, false, options.window, 0};
                if (!operation->sized) {
                    cases.push_back(c);
                    continue;
                }
                for (const auto& [near_scattered, far_scattered] : options.layouts) {
                    for (const size_t size : options.sizes) {
                        c.size = size;
                        c.near_scattered = near_scattered;
                        c.far_scattered = far_scattered;
                        const size_t fitting = kWindowBytes / std::max<size_t>(size, 1);
                        c.window = std::clamp<size_t>(fitting, 1, options.window);
                        cases.push_back(c);
                    }
                }
            }
        }
    }
    for (size_t at = 0; at < cases.size(); ++at) {
        cases[at].number = at + 1;
    }
    return cases;
}

bool needs_cuda(const Options& options)
{
    return std::any_of(options.kinds.begin(), options.kinds.end(), [](const auto& pair) {
        return ucs_type(pair.first) != UCS_MEMORY_TYPE_HOST ||
               ucs_type(pair.second) != UCS_MEMORY_TYPE_HOST;
    });
}

uint64_t features(const Options& options)
{
    uint64_t mask = 0;
    for (const Operation* operation : options.operations) {
        mask |= operation->features;
    }
    return mask;
}

// The result of all ranks together; the same in each.
int run_cases(const Options& options, Ranks& ranks, Report& report)
{
    const unsigned limit_s = 3 * deadline_s();
    report.begin("start", limit_s);
    Worker worker(features(options), options.wakeup);
    Endpoints endpoints(ranks, worker,
                        options.client_server ? Endpoints::Connect::kClientServer
                                              : Endpoints::Connect::kWorkerAddress,
                        options.peer_errors);
    Place place{ranks, worker, endpoints, report};
    const auto cases = make_cases(options);
    for (const Case& c : cases) {
        report.begin(c.name(), limit_s);
        c.operation->run(place, c);
        endpoints.require_no_error();
        ranks.barrier(worker, "end of the case");
    }
    report.begin("end", limit_s);
    const uint64_t failures = ranks.sum(report.failures(), worker, "results");
    endpoints.close();
    report.end();
    if (ranks.rank() == 0) {
        std::printf("%zu cases, %llu failed\n", cases.size(),
                    static_cast<unsigned long long>(failures));
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(int argc, char** argv)
{
    Options options;
    try {
        options = parse(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
    Ranks ranks(options.ranks);
    Report report(format("rank %d", ranks.rank()));
    if (needs_cuda(options) && !cuda::available(ranks.rank())) {
        return skip_without_cuda(ranks.rank());
    }
    const int result = run_cases(options, ranks, report);
    const int failed = ranks.join();
    if (failed > 0 && result == EXIT_SUCCESS) {
        std::printf("%d ranks did not end well\n", failed);
        return EXIT_FAILURE;
    }
    return result;
}

} // namespace
} // namespace ucptest

int main(int argc, char** argv)
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    return ucptest::run(argc, argv);
}
