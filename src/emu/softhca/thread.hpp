// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Threads of our own in an application's process.
#pragma once

#include "emu/softhca/config.hpp"

#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sched.h>

namespace softhca {

// An HCA works beside the program: on the processor to which a program that polls keeps, a thread
// of the HCA's would wait for it.
inline void leave_processors_of_program()
{
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all); // the kernel leaves out what the process may not use
}

// Runs for as long as the process does. The application's signals are none of its business.
template <class Function>
void start_thread(Function function)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    std::thread([function = std::move(function)] {
        pthread_setname_np(pthread_self(), "softhca");
        if (!config().on_programs_processors) {
            leave_processors_of_program();
        }
        function();
    }).detach();
    pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

} // namespace softhca
