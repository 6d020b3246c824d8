// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Programs whose peers are killed: three kinds of processes. The first one only forks; the survivor
// orders peers of it, meets them, and kills them.
#pragma once

#include "sync/ucx-gdr/ugdr.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <cuda.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace synctest {

using Clock = std::chrono::steady_clock;

constexpr auto kDeadline = std::chrono::seconds(30); // for what a death ends

[[noreturn]] inline void fail(const std::string& what)
{
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
    std::exit(1);
}

inline void check(ucs_status_t status, const char* what)
{
    if (status != UCS_OK) {
        fail(std::string(what) + ": " + ucs_status_string(status));
    }
}

inline void check(CUresult result, const char* what)
{
    if (result != CUDA_SUCCESS) {
        fail(std::string(what) + ": CUresult " + std::to_string(result));
    }
}

#define CALL(function, ...) check(function(__VA_ARGS__), #function)

inline void send_bytes(int fd, const std::string& bytes)
{
    const size_t size = bytes.size();
    if (write(fd, &size, sizeof(size)) != static_cast<ssize_t>(sizeof(size)) ||
        write(fd, bytes.data(), size) != static_cast<ssize_t>(size)) {
        fail("write to the other process");
    }
}

inline std::string receive_bytes(int fd)
{
    size_t size = 0;
    if (recv(fd, &size, sizeof(size), MSG_WAITALL) != static_cast<ssize_t>(sizeof(size))) {
        fail("the other process is gone");
    }
    std::string bytes(size, '\0');
    if (recv(fd, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) {
        fail("the other process is gone");
    }
    return bytes;
}

// What the survivor has of the first process.
struct Peers {
    void order(int count) const
    {
        for (int i = 0; i < count; ++i) {
            if (write(orders, "f", 1) != 1) {
                fail("the server is gone");
            }
        }
    }
    // A connection to one of those that were ordered.
    int meet() const { return accept(listening, nullptr, nullptr); }

    int orders, listening;
};

// Forks the survivor, and peers as it orders them, each with a connection to it. Returns when the
// survivor has: its status.
template <typename Survive, typename BePeer>
int with_killed_peers(int at_a_time, Survive&& survive, BePeer&& be_a_peer)
{
    sockaddr_un place{};
    place.sun_family = AF_UNIX; // an abstract name: there is no file
    std::snprintf(place.sun_path + 1, sizeof(place.sun_path) - 1, "sync_deaths_%d", getpid());
    const auto* const address = reinterpret_cast<const sockaddr*>(&place);
    const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    int pipes[2];
    if (bind(listening, address, sizeof(place)) != 0 || listen(listening, at_a_time) != 0 ||
        pipe(pipes) != 0) {
        fail("no sockets");
    }
    const pid_t survivor = fork();
    if (survivor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pipes[0]);
        return survive(Peers{pipes[1], listening});
    }
    close(pipes[1]);
    close(listening);
    for (char order; read(pipes[0], &order, 1) == 1;) {
        while (waitpid(0, nullptr, WNOHANG) > 0) {
        }
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(pipes[0]);
            const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (connect(fd, address, sizeof(place)) != 0) {
                fail("the survivor is not there");
            }
            be_a_peer(fd);
        }
    }
    int status = 0;
    if (waitpid(survivor, &status, 0) != survivor || status != 0) {
        fail("the survivor has not survived");
    }
    return 0;
}

} // namespace synctest
