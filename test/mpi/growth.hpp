// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// By how much a process grows in the second half of many calls; growth.sh reads what print() says.
// The emulated HCA's queues are not counted: rings, of which a page is there once they first come
// around to it, whenever that is.
#pragma once

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

class Growth {
  public:
    // All rounds. call(): one of them, some calls.
    template <typename Call>
    static Growth in_second_half(int rounds, Call call)
    {
        Growth half;
        for (int round = 0; round < rounds; ++round) {
            if (round == rounds / 2) {
                half = now();
            }
            call();
        }
        Growth grown = now();
        grown.kib_ -= half.kib_;
        grown.descriptors_ -= half.descriptors_;
        return grown;
    }

    template <typename Call>
    static void print(int rank, int rounds, int calls_each, Call call)
    {
        const Growth grown = in_second_half(rounds, call);
        std::printf("rank %d: %ld KiB and %ld descriptors more after the second half of %d calls\n",
                    rank, grown.kib_, grown.descriptors_, rounds * calls_each);
    }

    long kib() const { return kib_; }

  private:
    static Growth now()
    {
        Growth sizes;
        std::ifstream maps("/proc/self/smaps");
        bool queues = false; // of the emulated HCA
        for (std::string line; std::getline(maps, line);) {
            long kib;
            if (std::isupper(line[0]) == 0) { // a mapping; what follows of it has a name
                queues = line.find("/memfd:softhca") != line.npos;
            } else if (!queues && std::sscanf(line.c_str(), "Rss: %ld", &kib) == 1) {
                sizes.kib_ += kib;
            }
        }
        if (sizes.kib_ == 0) {
            std::exit(1);
        }
        sizes.descriptors_ =
            std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
        return sizes;
    }

    long kib_ = 0; // resident
    long descriptors_ = 0;
};
