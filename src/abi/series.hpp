// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A series as one object: the UCX releases that share one plugin ABI. series_table.cpp lists them.
#pragma once

#include "abi/component.hpp"
#include "abi/perftest.hpp"

#include <span>
#include <string>

namespace gdr::abi {

struct Version {
    unsigned major;
    unsigned minor;

    auto operator<=>(const Version&) const = default;
};

struct Series {
    Version version;        // of all its releases
    size_t base_iface_size; // of uct_base_iface_t and uct_base_ep_t, from their class objects
    size_t base_ep_size;

    const void* internal_ops; // uct_iface_internal_ops_t, calling Iface::internal
    const void* md_ops;       // uct_md_ops_t
    size_t internal_ops_size;
    size_t md_ops_size;
    bool protocols_v2_default; // UCP uses protocols v2 by default
    bool invalidates_later;    // UCP takes the completion of mem_dereg after that has returned
    bool caches_soundly;       // protocols v2 do not release registrations in use
    bool reads_behind_rts;     // protocols v1 read a key behind a ready-to-send that has none
    bool counts_answers;       // protocols v2 add a latency for the answer to zero-copy operations

    // False: a component of this name exists already.
    bool (*register_component)(const Component& component);

    // Fills storage (table.size bytes) from the environment and ucx.conf. ucx_info -f shows the
    // table's variables if `listed`.
    ucs_status_t (*read_options)(const OptionTable& table, void* storage, bool listed);

    // Fills a ucs_memory_info_t.
    void (*tell_memory)(const MemoryInfo& memory, void* info);

    PerftestOffsets perftest;
};

// What is found in a process.
struct Found {
    Version version;
    std::string version_text; // as the library reports it, "1.13.1"
    std::string uct_path;
    std::string ucp_path;
    size_t base_iface_size;
    size_t base_ep_size;
    std::string override; // UCX_GDR_ABI, which is read before UCX's parser can be used
};

struct Choice {
    const Series* series; // NULL: none fits
    std::string why_not;  // one line, if none fits
};

Choice choose(const Found& found);

// The series of this process. choose_series() must have returned true.
const Series& series();

// Every series known, oldest first.
std::span<const Series> all_series();

} // namespace gdr::abi
