// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Small work with text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gdr::doctor {

std::string trimmed(std::string_view text);
// The parts between separators; empty ones are left out.
std::vector<std::string> split(std::string_view text, char separator);
std::vector<std::string> lines(std::string_view text);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);
// "NAME = VALUE": both trimmed; false if there is no "=", or a comment.
bool parse_assignment(std::string_view line, std::string* name, std::string* value);
std::string bytes(uint64_t count); // "64 MiB"
// Whether UCX's or Open MPI's list has the name; a list that begins with ^ excludes.
bool lists(std::string_view list, std::string_view name);
// The candidate that differs least from the word; empty if all differ much.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

} // namespace gdr::doctor
