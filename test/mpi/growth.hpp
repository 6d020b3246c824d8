// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// By how much a process grows in the second half of many calls; growth.sh reads what is printed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

class Growth {
  public:
    // All rounds. call(): one of them, some calls.
    template <typename Call>
    static void print(int rank, int rounds, int calls_each, Call call)
    {
        Growth half;
        for (int round = 0; round < rounds; ++round) {
            if (round == rounds / 2)
                half = now();
            call();
        }
        const Growth end = now();
        std::printf("rank %d: %ld KiB and %ld descriptors more after the second half of %d calls\n",
                    rank, end.kib_ - half.kib_, end.descriptors_ - half.descriptors_,
                    rounds * calls_each);
    }

  private:
    static Growth now()
    {
        Growth sizes;
        long size = 0, pages = 0;
        FILE* file = std::fopen("/proc/self/statm", "r");
        if (file == nullptr || std::fscanf(file, "%ld %ld", &size, &pages) != 2)
            std::exit(1);
        std::fclose(file);
        sizes.kib_ = pages * 4;
        sizes.descriptors_ =
            std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
        return sizes;
    }

    long kib_ = 0; // resident
    long descriptors_ = 0;
};
