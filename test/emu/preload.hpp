// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// How a test program comes to run on an emulated HCA: it starts itself again with the library
// preloaded.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

// A file or directory of the build.
inline std::string built(const char* path)
{
    const char* build = std::getenv("top_builddir");
    return std::string(build == nullptr ? "." : build) + path;
}

// What the program executes from now on, itself anew for example, finds the emulated GPUs.
inline void find_softcuda()
{
    setenv("LD_LIBRARY_PATH", built("/src/emu/softcuda/.libs").c_str(), 1);
}

// GDR_TEST_HCA, as in test/emulated_hca.sh: whether the HCA is a ConnectX under libmlx5.
inline bool on_softmlx5()
{
    const char* hca = std::getenv("GDR_TEST_HCA");
    return hca != nullptr && std::string(hca) == "mlx5";
}

// First in a case that is about what softhca alone emulates; reason says what that is.
#define ONLY_ON_SOFTHCA(reason)                                                                    \
    if (on_softmlx5())                                                                             \
    GTEST_SKIP() << reason

// The name of an emulated HCA.
inline std::string emulated_hca(int number)
{
    return (on_softmlx5() ? "mlx5_" : "softhca") + std::to_string(number);
}

// Unless an emulated HCA is there already: executes the program anew with it, behind the runtimes
// of sanitizers, which insist on being first, and in a fabric of its own if the environment names
// none. Returns when nothing was to do; a program that cannot be executed so ends with 99.
inline void run_on_emulated_hca(char** argv)
{
    if (dlsym(RTLD_DEFAULT, "softhca_counters") != nullptr) {
        return;
    }
    std::string preload = built(on_softmlx5() ? "/src/emu/softmlx5/.libs/libsoftmlx5.so"
                                              : "/src/emu/softhca/.libs/libsofthca.so");
    Dl_info own; // a runtime may be linked into the program
    dladdr(reinterpret_cast<void*>(&run_on_emulated_hca), &own);
    for (const char* name : {"__ubsan_handle_builtin_unreachable", "__asan_init", "__tsan_init"}) {
        Dl_info info;
        void* symbol = dlsym(RTLD_DEFAULT, name);
        if (symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fbase != own.dli_fbase) {
            preload = std::string(info.dli_fname) + ":" + preload;
        }
    }
    if (std::getenv("GDR_TEST_HCA_PRELOADED") != nullptr) {
        std::fprintf(stderr, "cannot preload %s\n", preload.c_str());
        _exit(99);
    }
    setenv("LD_PRELOAD", preload.c_str(), 1);
    setenv("SOFTHCA_FABRIC", ("test-" + std::to_string(getpid())).c_str(), 0);
    setenv("GDR_TEST_HCA_PRELOADED", "1", 1);
    execv("/proc/self/exe", argv);
    std::perror("execv");
    _exit(99);
}
