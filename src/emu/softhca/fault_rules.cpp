// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Reading the rules, see fault_rules.hpp.
#include "emu/softhca/fault_rules.hpp"

#include "emu/softhca/device.hpp"
#include "emu/softhca/layout.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <infiniband/verbs.h>

namespace softhca {
namespace {

using Action = FaultRule::Action;

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

unsigned parse_device(const std::string& number)
{
    if (number.size() != 1 || number[0] < '0' ||
        number[0] >= '0' + static_cast<int>(kMaxByVariable)) {
        throw std::invalid_argument("there is no HCA softhca" + number);
    }
    return static_cast<unsigned>(number[0] - '0');
}

unsigned parse_gid(const std::string& index)
{
    if (index.size() != 1 || index[0] < '0' || index[0] >= '0' + static_cast<int>(kGids)) {
        throw std::invalid_argument("there is no GID " + index);
    }
    return static_cast<unsigned>(index[0] - '0');
}

void parse_rule(Words& words, FaultRule& rule)
{
    constexpr std::string_view prefix = "softhca";
    if (words.word().rfind(prefix, 0) == 0) {
        rule.device = static_cast<int>(parse_device(words.take().substr(prefix.size())));
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
    } else if (action == "cut") {
        rule.action = Action::cut;
    } else if (action == "endless") {
        rule.action = Action::endless;
    } else if (action == "device_fatal") {
        rule.action = Action::device_fatal;
    } else if (action == "cq_err") {
        rule.action = Action::cq_err;
    } else if (action == "srq_err") {
        rule.action = Action::srq_err;
    } else if (action == "rnr") {
        rule.action = Action::rnr;
        rule.amount = words.number("a number of messages");
    } else if (action == "modify") {
        rule.action = Action::modify;
        rule.amount = words.number("microseconds");
    } else if (action == "unresolved") {
        rule.action = Action::unresolved;
        rule.neighbour = parse_device(words.take());
        rule.amount = words.number("microseconds");
    } else if (action == "unusable") {
        rule.action = Action::unusable;
        rule.gid = parse_gid(words.take());
    } else {
        throw std::invalid_argument("expected error, delay, drop, kill, down, cut, endless, "
                                    "device_fatal, cq_err, srq_err, rnr, modify, unresolved or "
                                    "unusable, not \"" +
                                    action + "\"");
    }
    if (rule.is_of_a_work_request()) {
        if (!words.take_if("at")) {
            throw std::invalid_argument("expected \"at\", not \"" + words.word() + "\"");
        }
        if (rule.action != Action::down || !words.take_if("start")) {
            rule.at = words.number("the number of a work request, from 1");
        }
    }
    if (!words.word().empty()) {
        throw std::invalid_argument("nothing may follow, as \"" + words.word() + "\" does");
    }
}

FaultRules parse(const std::string& text)
{
    FaultRules result{text, {}};
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
                FaultRule rule;
                parse_rule(words, rule);
                result.rules.push_back(rule);
            } catch (const std::invalid_argument& error) {
                std::fprintf(stderr, "softhca: SOFTHCA_FAULTS, line %u: %s; the rule is ignored\n",
                             number, error.what());
            }
        }
    }
    return result;
}

FaultRules read()
{
    const char* value = std::getenv("SOFTHCA_FAULTS");
    if (value == nullptr) {
        return {};
    }
    if (std::string_view(value).find('/') == std::string_view::npos) {
        return parse(value);
    }
    std::ifstream file(value);
    std::ostringstream content;
    if (!(file && content << file.rdbuf())) {
        std::fprintf(stderr, "softhca: SOFTHCA_FAULTS: cannot read %s: %m; there are no faults\n",
                     value);
        return {};
    }
    return parse(content.str());
}

} // namespace

const FaultRules& fault_rules()
{
    static const FaultRules instance = read();
    return instance;
}

} // namespace softhca
