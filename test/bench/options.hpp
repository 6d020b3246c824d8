// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// What contrib/bench-sync tells its programs.
#pragma once

#include "driver.hpp"

#include <cstdlib>
#include <string>

namespace bench {

struct Options {
    int gpus = 1;
    unsigned rounds = 2000;
    bool device = false; // where the messages are
    size_t largest = 1 << 20;
    std::string kernels; // a file
};

inline Options parse(int argc, char** argv)
{
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        if (option == "--device") {
            options.device = true;
            continue;
        }
        if (option == "--gpus") {
            options.gpus = std::atoi(value);
        } else if (option == "--rounds") {
            options.rounds = static_cast<unsigned>(std::strtoul(value, nullptr, 0));
        } else if (option == "--largest") {
            options.largest = std::strtoull(value, nullptr, 0);
        } else if (option == "--kernels") {
            options.kernels = value;
        } else {
            fail("unknown option", option);
        }
        ++i;
    }
    if (options.gpus < 1 || options.rounds < 10 || options.largest < 8) {
        fail("options", "a GPU, ten rounds, and 8 bytes at least");
    }
    return options;
}

} // namespace bench
