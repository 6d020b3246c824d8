// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The cases of a test program.
#include "report.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <unistd.h>

namespace ucptest {
namespace {

// Prepared beforehand: a signal handler may only write it.
char signal_message[512];

void write_message(const char* text)
{
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) {
        _exit(EXIT_FAILURE);
    }
}

void on_alarm(int)
{
    write_message(signal_message);
    write_message("hangs\n");
    _exit(EXIT_FAILURE);
}

// A crash, in whatever library, is a failure of the case too.
void on_crash(int signal)
{
    write_message(signal_message);
    write_message(signal == SIGABRT ? "aborts\n" : "crashes\n");
    raise(signal); // the default action now, with its core file and status
}

Report* report = nullptr; // the process's

[[noreturn]] void on_uncaught()
{
    try {
        std::rethrow_exception(std::current_exception());
    } catch (const std::exception& error) {
        report->failed(error.what());
    }
    _exit(EXIT_FAILURE);
}

} // namespace

int skip_without_cuda(int rank)
{
    if (rank == 0) {
        std::printf("skipped: no CUDA driver with a device\n");
    }
    return kSkip;
}

Report::Report(std::string who) : who_(std::move(who))
{
    struct sigaction action = {};
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    // UCX takes SIGSEGV and SIGBUS for itself unless UCX_HANDLE_ERRORS=none.
    action.sa_handler = on_crash;
    action.sa_flags = SA_RESETHAND | SA_NODEFER;
    for (int crash : {SIGABRT, SIGSEGV, SIGBUS}) {
        sigaction(crash, &action, nullptr);
    }
    report = this;
    std::set_terminate(on_uncaught);
}

void Report::begin(const std::string& name, unsigned limit_s)
{
    alarm(0);
    name_ = name;
    failed_ = false;
    ++cases_;
    std::snprintf(signal_message, sizeof(signal_message), "%s: FAILED %s: ", who_.c_str(),
                  name.c_str());
    alarm(limit_s);
}

void Report::failed(const std::string& why)
{
    std::fprintf(stderr, "%s: FAILED %s: %s\n", who_.c_str(), name_.c_str(), why.c_str());
    failures_ += !failed_;
    failed_ = true;
}

void Report::end()
{
    alarm(0);
}

unsigned deadline_s()
{
    static const unsigned seconds = [] {
        const char* text = std::getenv("UCPTEST_DEADLINE");
        return text == nullptr ? 30u : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
    }();
    return seconds;
}

} // namespace ucptest
