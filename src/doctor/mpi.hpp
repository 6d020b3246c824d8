// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The MPI that a command uses, and Open MPI's parameters.
#pragma once

#include "doctor/loader.hpp"

#include <map>
#include <optional>
#include <string>

namespace gdr::doctor {

enum class MpiKind { none, open_mpi, mpich, intel, unknown };

struct Mpi {
    MpiKind kind = MpiKind::none;
    Path launcher; // empty: none is in PATH
    Path library;  // empty: not found
    bool uses_ucx = false;
    Path component_for_ucx;  // of Open MPI, where it is a file of its own
    std::string other_layer; // the library that it uses instead: "libfabric.so.1"

    // Open MPI's parameters and where each comes from, the strongest alone.
    struct Parameter {
        std::string value;
        std::string origin;
        bool from_file = false;
    };
    std::map<std::string, Parameter> parameters;

    const Parameter* parameter(const std::string& name) const;
};

Mpi find_mpi(const Root& root, const Command& command, const Loader& loader);
const char* name_of(MpiKind kind);

} // namespace gdr::doctor
