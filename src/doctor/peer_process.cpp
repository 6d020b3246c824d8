// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Starting it, and its lines.
#include "doctor/peer_process.hpp"

#include "doctor/peer/mark.hpp"
#include "doctor/reader/text.hpp"

#include <algorithm>
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gdr::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(90); // longer than the peer's own for a transfer
constexpr auto kPatienceAtEnd = std::chrono::seconds(10);
constexpr size_t kLongestLine = 4 << 20;

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
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
        if (const auto said = marked_line()) {
            struct stat errors {};
            before_answer_ = errors_ != nullptr && fstat(fileno(errors_.get()), &errors) == 0
                                 ? errors.st_size
                                 : 0;
            other_line_.clear();
            return *said;
        }
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd outputs[] = {{from_, POLLIN, 0}, {partner_ == nullptr ? -1 : partner_->from_, 0, 0}};
        if (left <= 0 || poll(outputs, 2, static_cast<int>(left)) == 0) {
            throw std::runtime_error(host_ + " does not answer within " +
                                     std::to_string(kPatience.count()) + " s");
        }
        if (outputs[0].revents == 0) {
            if (outputs[1].revents != 0) {
                partner_->answer(); // after those that it gave before it ended, it throws
            }
            continue;
        }
        std::array<char, 4096> bytes{};
        const ssize_t count = read(from_, bytes.data(), bytes.size());
        if (count <= 0) {
            throw std::runtime_error("the process on " + host_ + " ended" + last_words());
        }
        text_.append(bytes.data(), static_cast<size_t>(count));
        if (text_.size() > kLongestLine) {
            throw std::runtime_error(host_ + " writes what is not ucx-gdr's, without end");
        }
    }
}

std::optional<std::string> PeerProcess::marked_line()
{
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        // A launcher's text without an end of line stands before it.
        const size_t mark = line.find(peer::kMark);
        if (mark != std::string::npos) {
            return trimmed(line.substr(mark + peer::kMark.size()));
        }
        if (!trimmed(line).empty()) {
            other_line_ = trimmed(line);
        }
    }
    return std::nullopt;
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
    for (int* const end : {&to_, &from_}) {
        if (*end >= 0) {
            close(*end);
            *end = -1;
        }
    }
    const auto begin = Clock::now();
    while (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == 0) {
        if (Clock::now() - begin > kPatienceAtEnd) {
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
    const std::string errors = end();
    const std::vector<std::string> said =
        lines(errors.substr(std::min(before_answer_, errors.size())));
    const std::string words = said.empty() ? other_line_ : trimmed(said.back());
    std::string text;
    if (WIFSIGNALED(status_)) {
        text = " by signal " + std::to_string(WTERMSIG(status_));
    } else if (WEXITSTATUS(status_) != 0) {
        text = " with status " + std::to_string(WEXITSTATUS(status_));
    }
    return text + (words.empty() ? "" : ": " + words);
}

} // namespace gdr::doctor
