// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Starting it, and its lines.
#include "doctor/peer_process.hpp"

#include "doctor/reader/text.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gdr::doctor {
namespace {

constexpr int kPatience = 90000; // ms; longer than the peer's own for a transfer
constexpr auto kPatienceAtEnd = std::chrono::seconds(10);
constexpr const char* kMark = "peer: ";

std::array<int, 2> make_pipe()
{
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    return ends;
}

} // namespace

PeerProcess::PeerProcess(std::string host, const std::vector<std::string>& command)
    : host_(std::move(host)), errors_(std::tmpfile(), std::fclose)
{
    signal(SIGPIPE, SIG_IGN); // that it ended is told by its output
    const std::array<int, 2> input = make_pipe();
    const std::array<int, 2> output = make_pipe();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    if (errors_ != nullptr) {
        posix_spawn_file_actions_adddup2(&actions, fileno(errors_.get()), STDERR_FILENO);
    }
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    const int failed = posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    to_ = input[1];
    from_ = output[0];
    if (failed != 0) {
        pid_ = -1;
        close(to_);
        close(from_);
        throw std::system_error(failed, std::generic_category(), command[0]);
    }
}

PeerProcess::~PeerProcess()
{
    end();
    close(from_);
}

void PeerProcess::say(const std::string& line)
{
    const std::string text = line + "\n";
    for (size_t said = 0; said < text.size();) {
        const ssize_t count = write(to_, text.data() + said, text.size() - said);
        if (count < 0) {
            return; // it has ended, as its output tells
        }
        said += static_cast<size_t>(count);
    }
}

std::string PeerProcess::line()
{
    for (;;) {
        const size_t end_of_line = text_.find('\n');
        if (end_of_line != std::string::npos) {
            const std::string line = text_.substr(0, end_of_line);
            text_.erase(0, end_of_line + 1);
            if (line.starts_with(kMark)) {
                return trimmed(line.substr(std::string(kMark).size()));
            }
            continue;
        }
        pollfd output{from_, POLLIN, 0};
        if (poll(&output, 1, kPatience) == 0) {
            throw std::runtime_error(host_ + " does not answer");
        }
        std::array<char, 4096> bytes{};
        const ssize_t count = read(from_, bytes.data(), bytes.size());
        if (count <= 0) {
            throw std::runtime_error("the process on " + host_ + " ended" + last_words());
        }
        text_.append(bytes.data(), static_cast<size_t>(count));
    }
}

std::string PeerProcess::answer()
{
    const std::string said = line();
    if (said.starts_with("ok")) {
        return trimmed(said.substr(2));
    }
    throw std::runtime_error("on " + host_ + ": " + said.substr(said.find(' ') + 1));
}

std::string PeerProcess::end()
{
    if (to_ >= 0) {
        close(to_);
        to_ = -1;
    }
    const auto begin = std::chrono::steady_clock::now();
    while (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() - begin > kPatienceAtEnd) {
            kill(pid_, SIGKILL);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    pid_ = -1;
    std::string text;
    if (errors_ != nullptr) {
        std::rewind(errors_.get());
        std::array<char, 4096> bytes{};
        size_t count = 0;
        while ((count = std::fread(bytes.data(), 1, bytes.size(), errors_.get())) > 0) {
            text.append(bytes.data(), count);
        }
    }
    return text;
}

std::string PeerProcess::last_words()
{
    const std::vector<std::string> said = lines(end());
    return said.empty() ? "" : ": " + trimmed(said.back());
}

} // namespace gdr::doctor
