// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How a test program comes to run on a real driver and GPU where there are some, and on the
// emulated ones elsewhere.
#pragma once

#include "cuda/driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

// Starts the program again with the emulated driver in its library path, which counts as it was
// when a process began.
inline void restart_on_softcuda(char** argv)
{
    const char* build = std::getenv("top_builddir");
    if (build == nullptr || std::getenv("GDR_TEST_RESTARTED") != nullptr) {
        return;
    }
    setenv("LD_LIBRARY_PATH", (std::string(build) + "/src/emu/softcuda/.libs").c_str(), 1);
    setenv("GDR_TEST_RESTARTED", "1", 1);
    execv("/proc/self/exe", argv);
    std::perror("execv");
}

// To be called first in main(). Loads no driver in this process: another one asks for it.
inline void run_on_some_gpu(int argc, char** argv)
{
    if (argc == 2 && std::string(argv[1]) == "--print-driver") {
        const bool found = gdr::cuda::driver() != nullptr;
        std::puts(found ? "found" : gdr::cuda::unavailable_reason().c_str());
        std::exit(0);
    }
    if (std::system(("/proc/" + std::to_string(getpid()) + "/exe --print-driver | grep -qx found")
                        .c_str()) != 0) {
        restart_on_softcuda(argv);
    }
}
