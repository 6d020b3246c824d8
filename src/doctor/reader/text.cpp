// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Small work with text.
#include "doctor/reader/text.hpp"

#include <algorithm>

namespace gdr::doctor {
namespace {

constexpr size_t kMostDifferences = 3;

// How many letters have to be changed, added or left out.
size_t differences(std::string_view one, std::string_view other)
{
    std::vector<size_t> row(other.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) {
        row[j] = j;
    }
    for (size_t i = 1; i <= one.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j < row.size(); ++j) {
            const size_t replaced = diagonal + (one[i - 1] != other[j - 1]);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

} // namespace

std::string trimmed(std::string_view text)
{
    constexpr std::string_view kBlanks = " \t\r\n";
    const size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return {};
    }
    return std::string(text.substr(first, text.find_last_not_of(kBlanks) - first + 1));
}

std::vector<std::string> split(std::string_view text, char separator)
{
    std::vector<std::string> parts;
    while (!text.empty()) {
        const size_t end = std::min(text.find(separator), text.size());
        if (end > 0) {
            parts.emplace_back(text.substr(0, end));
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

std::vector<std::string> lines(std::string_view text)
{
    return split(text, '\n');
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator)
{
    std::string text;
    for (const std::string& part : parts) {
        text += text.empty() ? part : std::string(separator) + part;
    }
    return text;
}

bool parse_assignment(std::string_view line, std::string* name, std::string* value)
{
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
        return false;
    }
    *name = trimmed(line.substr(0, equals));
    *value = trimmed(line.substr(equals + 1));
    return !name->empty();
}

std::string bytes(uint64_t count)
{
    constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    uint64_t size = 1;
    for (; unit + 1 < std::size(kUnits) && count / size >= 1024; ++unit) {
        size *= 1024;
    }
    std::string text = std::to_string(count / size);
    if (count % size != 0) {
        text += "." + std::to_string(count % size * 10 / size);
    }
    return text + " " + kUnits[unit];
}

bool lists(std::string_view list, std::string_view name)
{
    const bool excludes = list.starts_with('^');
    const auto words = split(excludes ? list.substr(1) : list, ',');
    const bool listed = std::ranges::any_of(words, [&](const std::string& word) {
        return trimmed(word) == name || trimmed(word) == "all";
    });
    return listed != excludes;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates)
{
    std::string best;
    size_t fewest = kMostDifferences + 1;
    for (const std::string& candidate : candidates) {
        const size_t count = differences(word, candidate);
        if (count < fewest) {
            fewest = count;
            best = candidate;
        }
    }
    return best;
}

} // namespace gdr::doctor
