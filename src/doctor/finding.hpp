// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What a check finds.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gdr::doctor {

enum class Status {
    pass,
    fail,
    unknown, // what it needs cannot be read
    skipped, // there is nothing here to look at
};

// What a failure means for programs. The command's exit status is the worst.
enum class Consequence {
    none, // worth knowing
    loss, // GPUDirect RDMA works, slower or not for all memory
    no_gpudirect,
    cannot_run,
};

struct Evidence {
    std::string file; // or a variable, or a limit
    std::string value;
};

struct Result {
    Status status;
    std::string summary = {}; // what is so; the cause where the status is unknown or skipped
    std::string detail = {};
    std::string fix = {}; // one line for a shell
    bool needs_root = false;
    std::vector<Evidence> evidence = {};
    std::optional<Consequence> consequence = {}; // in the place of the check's

    Result&& with_detail(std::string text) &&;
    Result&& as(Consequence other) &&;
    Result&& by_root() &&;
    Result&& seen_in(std::string file, std::string value) &&;
};

Result pass(std::string summary);
Result fail(std::string summary, std::string fix);
Result unknown(std::string cause);
Result skipped(std::string cause);
// A file that is there, or may be, and cannot be read.
Result unreadable(const std::string& file, int error);

struct Finding {
    std::string id;
    Consequence consequence; // of a failure
    Result result;
};

const char* name_of(Status status);
// "error", "warning", "information".
const char* severity_of(Consequence consequence);
// Of those that failed.
Consequence worst(const std::vector<Finding>& findings);
// How many failed with a consequence from least to most.
size_t failures(const std::vector<Finding>& findings, Consequence least, Consequence most);
// What the worst failure means, in words.
const char* verdict_of(Consequence worst);

} // namespace gdr::doctor
