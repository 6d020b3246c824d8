// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What an ELF file says of itself to the loader, and the rights that the kernel gives it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gdr::doctor {

struct Elf {
    bool has_interpreter = false;  // a program that the loader starts
    bool is_dynamic = false;       // it has a dynamic section
    bool has_device_code = false;  // compiled by nvcc
    bool has_capabilities = false; // as by setcap
    std::vector<std::string> needed;
    std::vector<std::string> rpath; // before LD_LIBRARY_PATH
    std::vector<std::string> runpath;

    bool is_static_program() const { return !has_interpreter && !is_dynamic; }
    bool needs(const std::string& beginning) const;
};

// file: on the disk of this machine. None if it is no 64-bit ELF file.
std::optional<Elf> read_elf(const std::filesystem::path& file);

} // namespace gdr::doctor
