// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Ranks: forked processes and the sockets between them.
#include "ranks.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apart.hpp"
#include "failure.hpp"

namespace ucptest {
namespace {

constexpr size_t kLargestMessage = 64 * 1024;

} // namespace

Ranks::Ranks(int count)
    : sockets_(static_cast<size_t>(count), -1), processes_(static_cast<size_t>(count), 0)
{
    const pid_t parent = getpid();
    processes_[0] = parent;
    for (int child = 1; child < count; ++child) {
        int pair[2];
        require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
        const pid_t process = fork();
        require(process >= 0, "fork");
        if (process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1);
            }
            for (int other = 1; other < child; ++other) {
                close(sockets_[static_cast<size_t>(other)]);
            }
            close(pair[0]);
            sockets_.assign(static_cast<size_t>(count), -1);
            sockets_[0] = pair[1];
            rank_ = child;
            choose_devices();
            keep_apart(rank_);
            return;
        }
        close(pair[1]);
        sockets_[static_cast<size_t>(child)] = pair[0];
        processes_[static_cast<size_t>(child)] = process;
    }
    choose_devices();
}

void Ranks::choose_devices() const
{
    choose("UCPTEST_NET_DEVICES", "UCX_NET_DEVICES");
    choose("UCPTEST_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES");
}

void Ranks::choose(const char* lists, const char* variable) const
{
    const char* text = std::getenv(lists);
    if (text == nullptr) {
        return;
    }
    std::vector<std::string> devices;
    std::istringstream stream(text);
    for (std::string device; std::getline(stream, device, ';');) {
        devices.push_back(device);
    }
    require(!devices.empty(), std::string(lists) + " is empty");
    setenv(variable, devices[static_cast<size_t>(rank_) % devices.size()].c_str(), 1);
}

Ranks::~Ranks()
{
    for (int socket : sockets_) {
        if (socket >= 0) {
            close(socket);
        }
    }
}

std::vector<int> Ranks::peers() const
{
    if (rank_ != 0) {
        return {0};
    }
    std::vector<int> others;
    for (int rank = 1; rank < count(); ++rank) {
        others.push_back(rank);
    }
    return others;
}

void Ranks::send(int peer, const Bytes& bytes)
{
    // A packet of one byte at least: an empty one cannot be told from the end of the connection.
    Bytes packet(bytes);
    packet.push_back(0);
    const int socket = sockets_.at(static_cast<size_t>(peer));
    const ssize_t sent = ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
    require(sent == static_cast<ssize_t>(packet.size()),
            format("rank %d has ended (send: %s)", peer, std::strerror(errno)));
}

Bytes Ranks::receive(int peer, Worker& worker, const std::string& what)
{
    const int socket = sockets_.at(static_cast<size_t>(peer));
    Bytes packet(kLargestMessage);
    ssize_t length = -1;
    worker.wait(
        [&] {
            length = recv(socket, packet.data(), packet.size(), MSG_DONTWAIT);
            return length >= 0 || (errno != EAGAIN && errno != EINTR);
        },
        format("%s from rank %d", what.c_str(), peer), std::span(&socket, 1));
    require(length > 0, format("rank %d has ended, at %s", peer, what.c_str()));
    packet.resize(static_cast<size_t>(length) - 1);
    return packet;
}

std::vector<Bytes> Ranks::exchange(const std::function<Bytes(int peer)>& mine, Worker& worker,
                                   const std::string& what)
{
    for (int peer : peers()) {
        send(peer, mine(peer));
    }
    std::vector<Bytes> theirs(sockets_.size());
    for (int peer : peers()) {
        theirs[static_cast<size_t>(peer)] = receive(peer, worker, what);
    }
    return theirs;
}

uint64_t Ranks::sum(uint64_t mine, Worker& worker, const std::string& what)
{
    const auto pack = [](uint64_t value) {
        Bytes bytes(sizeof(value));
        std::memcpy(bytes.data(), &value, sizeof(value));
        return bytes;
    };
    const auto unpack = [](const Bytes& bytes) {
        uint64_t value = 0;
        require(bytes.size() == sizeof(value), "ranks are at different places");
        std::memcpy(&value, bytes.data(), sizeof(value));
        return value;
    };
    if (rank_ != 0) {
        send(0, pack(mine));
        return unpack(receive(0, worker, what));
    }
    for (int peer : peers()) {
        mine += unpack(receive(peer, worker, what));
    }
    for (int peer : peers()) {
        send(peer, pack(mine));
    }
    return mine;
}

void Ranks::barrier(Worker& worker, const std::string& what)
{
    sum(0, worker, what);
}

int Ranks::join()
{
    int failed = 0;
    if (rank_ != 0) {
        return failed;
    }
    for (int rank = 1; rank < count(); ++rank) {
        int status = 0;
        const pid_t process = processes_[static_cast<size_t>(rank)];
        while (waitpid(process, &status, 0) < 0 && errno == EINTR)
            ;
        if (status != 0) {
            ++failed;
        }
    }
    return failed;
}

} // namespace ucptest
