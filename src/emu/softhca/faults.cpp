// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Faults that happen on purpose: reading the rules and applying them, see faults.hpp.
#include "emu/softhca/faults.hpp"

#include "emu/softhca/channel.hpp"
#include "emu/softhca/clock.hpp"
#include "emu/softhca/config.hpp"
#include "emu/softhca/liveness.hpp"

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace softhca {
namespace {

enum class Action { error, delay, drop, kill, down, endless, rnr };

struct Rule {
    int device = -1;      // -1: any
    std::uint32_t qp = 0; // 0: all
    Action action{};
    std::uint32_t amount = 0; // status, microseconds, milliseconds, messages
    std::uint64_t at = 0;     // 0: not tied to a work request
    std::atomic<std::uint64_t> posted{0};

    bool concerns(unsigned other_device, std::uint32_t number) const
    {
        return (device < 0 || static_cast<unsigned>(device) == other_device) &&
               (qp == 0 || qp == number);
    }
};

constexpr const char* kStatuses[] = {
    "success",          "loc_len_err",       "loc_qp_op_err",     "loc_eec_op_err",
    "loc_prot_err",     "wr_flush_err",      "mw_bind_err",       "bad_resp_err",
    "loc_access_err",   "rem_inv_req_err",   "rem_access_err",    "rem_op_err",
    "retry_exc_err",    "rnr_retry_exc_err", "loc_rdd_viol_err",  "rem_inv_rd_req_err",
    "rem_abort_err",    "inv_eecn_err",      "inv_eec_state_err", "fatal_err",
    "resp_timeout_err", "general_err"};
static_assert(std::size(kStatuses) == IBV_WC_GENERAL_ERR + 1);

// The words of one rule; throws std::invalid_argument, which says what is wrong.
class Words {
  public:
    explicit Words(std::string_view text) : text_(text) { next(); }

    const std::string& word() const { return word_; }
    std::string take()
    {
        std::string taken = word_;
        next();
        return taken;
    }
    bool take_if(const char* expected)
    {
        if (word_ != expected) {
            return false;
        }
        next();
        return true;
    }
    std::uint32_t number(const char* of_what)
    {
        std::uint32_t value = 0;
        const char* const end = word_.data() + word_.size();
        const auto result = std::from_chars(word_.data(), end, value);
        if (word_.empty() || result.ec != std::errc{} || result.ptr != end || value == 0) {
            throw std::invalid_argument("expected " + std::string(of_what) + ", not \"" + word_ +
                                        "\"");
        }
        next();
        return value;
    }

  private:
    void next()
    {
        constexpr std::string_view blanks = " \t\r";
        text_.remove_prefix(std::min(text_.find_first_not_of(blanks), text_.size()));
        const std::size_t length = std::min(text_.find_first_of(blanks), text_.size());
        word_ = text_.substr(0, length);
        text_.remove_prefix(length);
    }

    std::string_view text_;
    std::string word_;
};

std::uint32_t parse_status(const std::string& word)
{
    for (std::uint32_t status = 1; status < std::size(kStatuses); ++status) {
        if (word == kStatuses[status]) {
            return status;
        }
    }
    throw std::invalid_argument("\"" + word + "\" is no status, such as rem_access_err");
}

void parse_rule(Words& words, Rule& rule)
{
    constexpr std::string_view prefix = "softhca";
    if (words.word().rfind(prefix, 0) == 0) {
        const std::string device = words.take().substr(prefix.size());
        if (device.size() != 1 || device[0] < '0' ||
            device[0] >= '0' + static_cast<int>(kMaxDevices)) {
            throw std::invalid_argument("there is no HCA softhca" + device);
        }
        rule.device = device[0] - '0';
    }
    if (words.take_if("qp")) {
        rule.qp = words.number("the number of a queue pair, from 1");
    }
    const std::string action = words.take();
    if (action == "error") {
        rule.action = Action::error;
        rule.amount = parse_status(words.take());
    } else if (action == "delay") {
        rule.action = Action::delay;
        rule.amount = words.number("microseconds");
    } else if (action == "drop") {
        rule.action = Action::drop;
    } else if (action == "kill") {
        rule.action = Action::kill;
    } else if (action == "down") {
        rule.action = Action::down;
        rule.amount = words.number("milliseconds");
    } else if (action == "endless") {
        rule.action = Action::endless;
    } else if (action == "rnr") {
        rule.action = Action::rnr;
        rule.amount = words.number("a number of messages");
    } else {
        throw std::invalid_argument(
            "expected error, delay, drop, kill, down, endless or rnr, not \"" + action + "\"");
    }
    if (rule.action != Action::rnr) {
        if (!words.take_if("at")) {
            throw std::invalid_argument("expected \"at\", not \"" + words.word() + "\"");
        }
        rule.at = words.number("the number of a work request, from 1");
    }
    if (!words.word().empty()) {
        throw std::invalid_argument("nothing may follow, as \"" + words.word() + "\" does");
    }
}

class Faults {
  public:
    Faults()
    {
        const char* value = std::getenv("SOFTHCA_FAULTS");
        if (value == nullptr) {
            return;
        }
        std::string text = value;
        if (text.find('/') != std::string::npos) {
            std::ifstream file(text);
            std::ostringstream content;
            if (!(file && content << file.rdbuf())) {
                std::fprintf(stderr, "softhca: SOFTHCA_FAULTS: cannot read %s\n", value);
                return;
            }
            text = content.str();
        }
        parse(text);
    }

    std::deque<Rule> rules; // neither moved nor copied, for their counts
    std::atomic<std::uint32_t> created[kMaxDevices] = {};
    std::atomic<std::uint64_t> down_until[kMaxDevices] = {}; // by this process

  private:
    void parse(const std::string& text)
    {
        std::istringstream lines(text);
        std::string line;
        for (unsigned number = 1; std::getline(lines, line); ++number) {
            std::istringstream parts(line.substr(0, line.find('#')));
            std::string part;
            while (std::getline(parts, part, ';')) {
                Words words(part);
                if (words.word().empty()) {
                    continue;
                }
                try {
                    parse_rule(words, rules.emplace_back());
                } catch (const std::invalid_argument& error) {
                    rules.pop_back();
                    std::fprintf(stderr,
                                 "softhca: SOFTHCA_FAULTS, line %u: %s; the rule is ignored\n",
                                 number, error.what());
                }
            }
        }
    }
};

Faults& faults()
{
    static Faults instance;
    return instance;
}

// Tells every process of the fabric.
void announce(Process& self, unsigned device, ibv_event_type type)
{
    for (const ProcessSlot& slot : self.fabric().processes) {
        const Token token = slot.token.load();
        Arena* arena = token != 0 && self.alive(token) ? self.arena_of(token) : nullptr;
        if (arena != nullptr) {
            raise_device_event(self, *arena, device, type);
        }
    }
}

void take_port_down(Process& self, unsigned device, std::uint32_t milliseconds)
{
    const std::uint64_t until = now_ns() + std::uint64_t{milliseconds} * 1'000'000;
    self.fabric().down_until[device].store(until);
    faults().down_until[device].store(until);
    announce(self, device, IBV_EVENT_PORT_ERR);
    ring_doorbell(self.arena());
}

void drop(Process& self, const Rule& rule, QpShared& qp)
{
    if (rule.qp != 0) {
        qp.dropped.store(true);
        return;
    }
    for (std::uint32_t index = 0; index < self.qp_indices.used(); ++index) {
        QpShared& other = self.arena().qp(index);
        if (rule.concerns(other.device, 0)) {
            other.dropped.store(true);
        }
    }
}

} // namespace

std::uint32_t enlist_qp(unsigned device, QpShared& qp)
{
    Faults& all = faults();
    const std::uint32_t number = ++all.created[device];
    bool counted = false;
    qp.rnr_storm = 0;
    qp.dropped.store(false);
    for (const Rule& rule : all.rules) {
        if (!rule.concerns(device, number)) {
            continue;
        }
        counted = counted || rule.at != 0;
        if (rule.action == Action::rnr) {
            qp.rnr_storm = rule.amount;
        } else if (rule.action == Action::drop && rule.qp == 0 && rule.posted >= rule.at) {
            qp.dropped.store(true);
        }
    }
    return counted ? number : 0;
}

Injected inject(Process& self, QpShared& qp, std::uint32_t number)
{
    Injected injected;
    for (Rule& rule : faults().rules) {
        if (rule.at == 0 || !rule.concerns(qp.device, number) || ++rule.posted != rule.at) {
            continue;
        }
        switch (rule.action) {
        case Action::error:
            injected.status = static_cast<std::uint8_t>(rule.amount);
            break;
        case Action::delay:
            injected.delay_us = rule.amount;
            break;
        case Action::drop:
            drop(self, rule, qp);
            break;
        case Action::down:
            take_port_down(self, qp.device, rule.amount);
            break;
        case Action::endless:
            qp.timeout = 0;
            break;
        case Action::kill:
            std::raise(SIGKILL);
            break;
        case Action::rnr:
            break;
        }
    }
    return injected;
}

std::uint64_t restore_ports(Process& self)
{
    std::uint64_t next = 0;
    for (unsigned device = 0; device < kMaxDevices; ++device) {
        std::atomic<std::uint64_t>& down_until = faults().down_until[device];
        const std::uint64_t until = down_until.load();
        if (until == 0) {
            continue;
        }
        if (now_ns() < until) {
            next = sooner(next, until);
        } else {
            down_until.store(0);
            announce(self, device, IBV_EVENT_PORT_ACTIVE);
        }
    }
    return next;
}

bool is_down(Process& self, unsigned device)
{
    const std::uint64_t until =
        self.fabric().down_until[device % kMaxDevices].load(std::memory_order_relaxed);
    return until != 0 && now_ns() < until;
}

} // namespace softhca
