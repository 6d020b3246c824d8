// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Making the transfers between two hosts: both sides do what this one says.
#include "doctor/pair.hpp"

#include "doctor/peer_process.hpp"
#include "doctor/reader/text.hpp"

#include "config.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

namespace gdr::doctor {
namespace {

constexpr size_t kBuffer = 4 << 20;
constexpr size_t kSizes[] = {8, 4097, 1 << 20}; // that are checked
constexpr unsigned kPings = 200;
constexpr const char* kSecondsOfStream = "0.3";

struct Side {
    PeerProcess process;
    std::string gpu; // its PCI address
    bool has_gpu = false;

    Side(const std::string& host, const std::vector<std::string>& command) : process(host, command)
    {
    }

    std::string ask(const std::string& command)
    {
        process.say(command);
        return process.answer();
    }
};

// "3 and the rest"
std::string take_word(std::string* text)
{
    const size_t end = std::min(text->find(' '), text->size());
    std::string word = text->substr(0, end);
    text->erase(0, std::min(end + 1, text->size()));
    return word;
}

uint64_t counted_by_gdr(const std::string& log, const std::string& what)
{
    uint64_t sum = 0;
    for (size_t at = log.find(" " + what + "="); at != std::string::npos;
         at = log.find(" " + what + "=", at + 1)) {
        sum += std::strtoull(log.c_str() + at + what.size() + 2, nullptr, 10);
    }
    return sum;
}

void add_log(const std::string& text, Attempt* attempt)
{
    attempt->direct_bytes += counted_by_gdr(text, "gpudirect_bytes");
    attempt->staged_bytes += counted_by_gdr(text, "staged_bytes");
    for (const std::string& line : lines(text)) {
        const size_t own = line.find(" gdr: "); // behind UCX's time and place
        if (own != std::string::npos) {
            attempt->log.push_back(line.substr(own + 1));
        }
    }
}

// The transfers of one attempt.
class Transfers {
  public:
    Transfers(Side& near, Side& far, Attempt& attempt,
              const std::function<void(const std::string&)>& says)
        : near_(near), far_(far), attempt_(attempt), says_(says)
    {
    }

    void make()
    {
        const std::string near_address = introduce(near_);
        near_.ask("connect " + introduce(far_));
        far_.ask("connect " + near_address);
        attempt_.connected = true;
        for (const char* kind : {"host", "device", "managed"}) {
            if (std::string(kind) == "host" || near_.has_gpu || far_.has_gpu) {
                make_with(kind);
            }
        }
    }

  private:
    static std::string introduce(Side& side)
    {
        std::string said = side.process.answer();
        std::string address = take_word(&said);
        side.has_gpu = take_word(&said) != "0";
        return address;
    }

    void make_with(const std::string& kind)
    {
        says_(kind + " memory: registration");
        if (!register_memory(kind)) {
            return;
        }
        says_(kind + " memory: checked transfers");
        for (const size_t size : kSizes) {
            for (const char* operation : {"tag", "put", "get"}) {
                check(kind, operation, size, near_, far_);
                check(kind, operation, size, far_, near_);
            }
        }
        if (kind != "managed") {
            says_(kind + " memory: latency and bandwidth");
            measure(kind);
        }
    }

    // In each process, and known to the other one.
    bool register_memory(const std::string& kind)
    {
        std::string keys[2];
        Side* const sides[] = {&near_, &far_};
        bool done = true;
        for (size_t i = 0; i < 2; ++i) {
            Side& side = *sides[i];
            try {
                std::string said = side.ask("memory " + (side.has_gpu ? kind : "host") + " " +
                                            std::to_string(kBuffer) + " " + side.gpu);
                const std::string address = take_word(&said);
                keys[i] = address + " " + take_word(&said);
            } catch (const std::runtime_error& error) {
                attempt_.refused.push_back(kind + " memory " + error.what());
                done = false;
            }
        }
        if (done) {
            near_.ask("remote " + keys[1]);
            far_.ask("remote " + keys[0]);
        }
        return done;
    }

    void check(const std::string& kind, const std::string& operation, size_t size, Side& from,
               Side& to)
    {
        const std::string sent = std::to_string(++seed_);
        const std::string before = std::to_string(++seed_);
        const std::string count = std::to_string(size);
        from.process.say("fill " + sent);
        to.process.say("fill " + before);
        from.process.answer();
        to.process.answer();
        if (operation == "put") {
            from.ask("put " + count);
        } else if (operation == "get") {
            to.ask("get " + count);
        } else {
            together(from, "send " + count, to, "receive " + count);
        }
        ++attempt_.transfers;
        if (to.ask("has " + sent + " " + count + " " + before) != "right") {
            attempt_.wrong.push_back(operation + " of " + count + " bytes of " + kind +
                                     " memory from " + from.process.host() + " to " +
                                     to.process.host());
        }
    }

    void measure(const std::string& kind)
    {
        Figures figures{kind, 0, 0, 0};
        const std::string pings = "8 " + std::to_string(kPings);
        figures.latency =
            std::strtod(together(near_, "ping " + pings, far_, "pong " + pings).c_str(), nullptr);
        const std::string stream = std::string("stream ") + kSecondsOfStream;
        figures.there = std::strtod(near_.ask(stream).c_str(), nullptr);
        figures.back = std::strtod(far_.ask(stream).c_str(), nullptr);
        attempt_.figures.push_back(figures);
    }

    // The answer of the first.
    static std::string together(Side& one, const std::string& its, Side& other,
                                const std::string& others)
    {
        other.process.say(others);
        one.process.say(its);
        std::string said = one.process.answer();
        other.process.answer();
        return said;
    }

    Side& near_;
    Side& far_;
    Attempt& attempt_;
    const std::function<void(const std::string&)>& says_;
    unsigned seed_ = 0;
};

enum class Far { examines, transfers };

std::vector<std::string> far_command(const PairSetUp& set_up, Far what, const std::string& port)
{
    std::vector<std::string> command = set_up.launcher;
    if (!command.empty()) {
        command.push_back(set_up.host);
    }
    command.insert(command.end(), {set_up.tool, "doctor", "--far", set_up.near_host});
    if (what == Far::transfers) {
        command.emplace_back("--transfers");
    }
    if (!port.empty()) {
        command.push_back("UCX_NET_DEVICES=" + port);
    }
    return command;
}

RankReport report_from(PeerProcess& far)
{
    std::string said = far.line();
    const std::string what = take_word(&said);
    const std::string version = take_word(&said);
    if (what != "report" || version != PACKAGE_VERSION) {
        throw std::runtime_error(
            far.host() + " has ucx-gdr " + (what == "report" ? version : "of an unknown version") +
            ", and this host has " PACKAGE_VERSION ": --pair needs the same on both");
    }
    try {
        return read_rank_report(said);
    } catch (const std::exception& error) {
        throw std::runtime_error(far.host() + " has another build of ucx-gdr " + version +
                                 ", whose report is not understood: " + error.what());
    }
}

// "any": there is no such route.
std::string gpu_of(const RankReport& report, const std::string& port)
{
    const auto route = std::ranges::find(report.routes, port, &Route::port);
    return route == report.routes.end() || route->gpu.empty() ? "any" : route->gpu;
}

// With which port of the other host a port of this one is tried: networks of rails join those of
// the same name.
std::string opposite(const Route& near, size_t index, const RankReport& far)
{
    if (far.routes.empty() ||
        std::ranges::find(far.routes, near.port, &Route::port) != far.routes.end()) {
        return far.routes.empty() ? "" : near.port;
    }
    return far.routes[index % far.routes.size()].port;
}

Attempt attempt(const PairSetUp& set_up, const RankReport& near, const RankReport& far,
                const Ports& ports, const std::function<void(const std::string&)>& says)
{
    const bool same_host = near.host == far.host;
    std::vector<std::string> variables;
    if (!ports.near.empty()) {
        variables.push_back("UCX_NET_DEVICES=" + ports.near);
    }
    Side far_side(same_host ? far.host + " (second process)" : far.host,
                  far_command(set_up, Far::transfers, ports.far));
    Side near_side(near.host, peer_command(set_up, same_host, variables));
    near_side.process.needs(&far_side.process);
    far_side.process.needs(&near_side.process);
    near_side.gpu = gpu_of(near, ports.near);
    far_side.gpu = gpu_of(far, ports.far);
    Attempt attempt;
    attempt.ports = ports;
    try {
        Transfers(near_side, far_side, attempt, [&](const std::string& what) {
            says((ports.near.empty() ? "" : ports.near + ": ") + what);
        }).make();
    } catch (const std::exception& error) {
        attempt.ended_by = error.what();
    }
    add_log(near_side.process.end(), &attempt);
    add_log(far_side.process.end(), &attempt);
    return attempt;
}

} // namespace

std::vector<std::string> peer_command(const PairSetUp& set_up, bool same_host,
                                      const std::vector<std::string>& variables)
{
    std::vector<std::string> command{set_up.tool, "run"};
    if (!same_host) {
        command.emplace_back("--no-emulation"); // which does not reach other hosts
    }
    command.emplace_back("UCX_GDR_STATS=-");
    command.emplace_back("UCX_LOG_LEVEL=info");
    if (same_host) {
        if (std::getenv("UCX_TLS") == nullptr) {
            command.emplace_back("UCX_TLS=gdr");
        }
        command.emplace_back("UCX_GDR_IPC=n");
    }
    command.insert(command.end(), variables.begin(), variables.end());
    command.push_back(set_up.peer);
    return command;
}

Pairing examine_pair(const PairSetUp& set_up,
                     const std::function<RankReport(const std::vector<std::string>&)>& examines,
                     const std::function<void(const std::string&)>& says)
{
    says("starting " + set_up.tool + " on " + set_up.host);
    PeerProcess first(set_up.host, far_command(set_up, Far::examines, ""));
    const RankReport far = report_from(first);
    first.end();
    const RankReport near = examines(peer_command(set_up, far.host == set_up.near_host, {}));
    std::vector<Attempt> attempts;
    if (near.routes.empty()) {
        attempts.push_back(attempt(set_up, near, far, {}, says));
    }
    for (size_t i = 0; i < near.routes.size(); ++i) {
        const Ports ports{near.routes[i].port, opposite(near.routes[i], i, far)};
        attempts.push_back(attempt(set_up, near, far, ports, says));
    }
    const bool emulated = std::ranges::any_of(near.findings, [](const Finding& finding) {
        return finding.id.ends_with(".emulated") && finding.result.status == Status::fail;
    });
    Pairing pairing{Job({near, far}, 2), std::move(attempts), emulated};
    std::vector<JobFinding> own;
    for (const Finding& finding : findings_of(pairing.attempts, near, far, emulated)) {
        own.push_back({finding, {}, true});
    }
    pairing.job.findings.insert(pairing.job.findings.begin(), own.begin(), own.end());
    return pairing;
}

} // namespace gdr::doctor
