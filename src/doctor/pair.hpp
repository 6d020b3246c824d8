// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Two hosts beside each other, and what passes between them: "ucx-gdr doctor --pair".
#pragma once

#include "doctor/job.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gdr::doctor {

struct Figures {
    std::string memory; // "host", "device"
    double latency;     // microseconds in one direction, 8 bytes
    double there;       // GB/s, from this host
    double back;
};

// Empty: UCX chooses.
struct Ports {
    std::string near;
    std::string far;
};

// What was tried by one port of each host.
struct Attempt {
    Ports ports;
    std::string ended_by;             // what kept it from being made to the end; empty: nothing
    bool connected = false;           // both sides have started, and know each other
    std::vector<std::string> refused; // registrations
    std::vector<std::string> wrong;   // transfers that brought other bytes
    unsigned transfers = 0;           // that were checked
    std::vector<Figures> figures;
    uint64_t direct_bytes = 0;    // that HCAs moved from and to GPU memory
    uint64_t staged_bytes = 0;    // that were copied between GPU and host memory
    std::vector<std::string> log; // of gdr
};

// How the two sides are started.
struct PairSetUp {
    std::string tool;                  // ucx-gdr
    std::string peer;                  // ucx-gdr-peer
    std::string near_host;             // this one
    std::string host;                  // the other one, as its launcher calls it
    std::vector<std::string> launcher; // "ssh"; none: the other side is here
};

// What ucx-gdr has to run for one side. same_host: of both; then what stays within a host is left
// out, so that the HCAs join them. variables: NAME=VALUE.
std::vector<std::string> peer_command(const PairSetUp& set_up, bool same_host,
                                      const std::vector<std::string>& variables);

struct Pairing {
    Job job; // of this host and the other one
    std::vector<Attempt> attempts;
    bool emulated; // devices: figures say nothing
};

// examines: this host, where that command makes the transfers. says: what is being done, for those
// who wait. Throws std::runtime_error if the other host tells nothing.
Pairing examine_pair(const PairSetUp& set_up,
                     const std::function<RankReport(const std::vector<std::string>&)>& examines,
                     const std::function<void(const std::string&)>& says);

// pair_findings.cpp: what follows.
std::vector<Finding> findings_of(const std::vector<Attempt>& attempts, const RankReport& near,
                                 const RankReport& far, bool emulated);

// pair_report.cpp.
std::string report(const Pairing& pairing, const Style& style);
// docs/reference/doctor-job.schema.json
std::string to_json(const Pairing& pairing, const std::string& time);

} // namespace gdr::doctor
