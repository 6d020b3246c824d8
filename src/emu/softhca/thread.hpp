// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Threads of our own in an application's process.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

#include <pthread.h>

namespace softhca {

// Runs for as long as the process does. The application's signals are none of its business.
template <class Function>
void start_thread(Function function)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    std::thread([function = std::move(function)] {
        pthread_setname_np(pthread_self(), "softhca");
        function();
    }).detach();
    pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

} // namespace softhca
