// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Lists on a bench's command line.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace ucptest {

inline std::vector<std::string> words_of(const std::string& list, char separator)
{
    std::vector<std::string> words;
    std::istringstream stream(list);
    for (std::string word; std::getline(stream, word, separator);) {
        words.push_back(word);
    }
    return words;
}

inline std::vector<size_t> sizes_of(const std::string& list)
{
    std::vector<size_t> sizes;
    for (const std::string& word : words_of(list, ',')) {
        sizes.push_back(std::stoul(word));
    }
    return sizes;
}

} // namespace ucptest
