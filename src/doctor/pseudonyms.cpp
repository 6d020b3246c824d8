// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Replacing names.
#include "doctor/pseudonyms.hpp"

#include "doctor/reader/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

namespace gdr::doctor {
namespace {

bool is_of_word(char letter)
{
    return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '-';
}

void replace_word(const std::string& word, const std::string& other, std::string* text)
{
    for (size_t at = 0; (at = text->find(word, at)) != std::string::npos;) {
        const size_t end = at + word.size();
        if ((at > 0 && is_of_word((*text)[at - 1])) ||
            (end < text->size() && is_of_word((*text)[end]))) {
            at = end;
        } else {
            text->replace(at, word.size(), other);
            at += other.size();
        }
    }
}

} // namespace

Pseudonyms::Pseudonyms(const Facts& facts)
{
    words_[facts.host] = "host";
    words_[facts.host.substr(0, facts.host.find('.'))] = "host";
    for (const std::string& name :
         {facts.variable("USER"), facts.variable("LOGNAME"),
          std::filesystem::path(facts.variable("HOME")).filename().native()}) {
        if (name != "root") {
            words_[name] = "user";
        }
    }
    words_.erase("");
}

std::string Pseudonyms::replaced(std::string text) const
{
    for (const auto& [word, other] : words_) {
        replace_word(word, other, &text);
    }
    return text;
}

std::string Pseudonyms::replaced_gid(const std::string& gid)
{
    const auto parts = split(trimmed(gid), ':');
    const std::string prefix =
        joined({parts.begin(), parts.begin() + std::min<ptrdiff_t>(6, std::ssize(parts))}, ":");
    if (parts.size() != 8 || gid.find_first_not_of("0:\n") == std::string::npos) {
        return gid;
    }
    const bool is_ipv4 = prefix == "0000:0000:0000:0000:0000:ffff";
    const bool is_link_local = parts[0] == "fe80";
    const unsigned number = addresses_.try_emplace(gid, addresses_.size() + 1).first->second;
    char text[64];
    std::snprintf(text, sizeof(text), "%s:%04x:%04x\n",
                  is_ipv4         ? prefix.c_str()
                  : is_link_local ? "fe80:0000:0000:0000:0000:0000"
                                  : "fec0:0000:0000:0000:0000:0000",
                  is_ipv4 ? 0x0a00 : 0, number);
    return text;
}

} // namespace gdr::doctor
