// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Configuration variables as the transports declare them: name, default, help text, storage.
// src/abi turns a table into the running series' own, so that UCX parses the variables
// (UCX_<prefix><name>) and ucx_info -f shows them with their help.
#pragma once

#include <cstddef>
#include <vector>

namespace gdr::abi {

enum class OptionType {
    boolean,      // int: y/n
    ternary,      // Ternary: y/n/try
    unsigned_int, // unsigned
    auto_ulong,   // unsigned long; "auto" is kAuto (UCX's "ulunits")
    memory_size,  // size_t, bytes; accepts 8k, 1m, inf; "auto" is kAutoSize
    duration,     // double, seconds; accepts 10ms, 1s
    string,       // char*, owned by UCX
    choice,       // unsigned: index into names
};

enum class Ternary : int { no, yes, attempt }; // UCS_NO, UCS_YES, UCS_TRY

inline constexpr unsigned long kAuto = ~1ul;    // UCS_ULUNITS_AUTO
inline constexpr size_t kAutoSize = ~size_t{1}; // UCS_MEMUNITS_AUTO

struct Option {
    const char* name;
    const char* default_value;
    const char* doc;
    size_t offset; // in the configuration structure
    OptionType type;
    const char* const* names = nullptr; // choice: NULL-terminated
};

// A configuration structure. It must start with IfaceConfig for an interface, with MdConfig for a
// memory domain.
struct OptionTable {
    const char* name;   // heading in ucx_info -f
    const char* prefix; // "GDR_RC_": variables are UCX_GDR_RC_*
    std::vector<Option> options;
    size_t size; // sizeof the structure
};

// uct_iface_config_t: owned and filled by UCX.
struct IfaceConfig {
    struct {
        void* methods;
        unsigned count;
    } alloc_methods;
    int failure;
    size_t max_num_eps;
};

// uct_md_config_t.
struct MdConfig {
    char dummy;
};

} // namespace gdr::abi
