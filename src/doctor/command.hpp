// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The command line that is to be run, as far as it decides what a program gets: what starts it, the
// variables that are set in it, and the program.
#pragma once

#include "doctor/reader/elf.hpp"
#include "doctor/reader/root.hpp"

#include <map>
#include <optional>
#include <string>

namespace gdr::doctor {

struct Command {
    std::map<std::string, std::string> environment; // of the program
    std::map<std::string, std::string> mca;         // Open MPI's parameters in the line itself
    Path launcher;                                  // mpirun and its kin; empty: none
    std::string launcher_name;                      // as it stands
    bool by_ucx_gdr = false;                        // "ucx-gdr run", which brings gdr
    std::string emulation;                          // ... and its options that ask for emulation
    std::string name;                               // of the program, as it stands; empty: none
    Path program;                                   // empty: there is no such file
    std::optional<Elf> elf;                         // of the program; none for a script

    std::string variable(const std::string& name) const;
    bool is_given() const { return !name.empty() || !launcher.empty(); }
};

// From the facts of the root.
Command read_command(const Root& root);

// The file that a shell would start.
Path find_program(const Root& root, const std::string& name, const std::string& path);

} // namespace gdr::doctor
