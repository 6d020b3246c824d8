// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process that answers lines with lines, on this host or behind a launcher such as ssh. Lines
// without its mark, as launchers and login shells write them, are passed over.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace gdr::doctor {

class PeerProcess {
  public:
    // host: for what is said of it. Throws std::system_error if it cannot be started.
    PeerProcess(std::string host, const std::vector<std::string>& command);
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;
    ~PeerProcess();

    const std::string& host() const { return host_; }

    // Without the partner, there is no answer: line() throws what answer() of the partner throws
    // when that ends.
    void needs(PeerProcess* partner) { partner_ = partner; }

    void say(const std::string& line);
    // Its next line. Throws std::runtime_error, with its status and what it wrote since the line
    // before, if it ends or is silent for long.
    std::string line();
    // Its next line, which has to begin with "ok"; what stands behind that. Throws
    // std::runtime_error.
    std::string answer();

    // Lets it end; then what it wrote to its standard error.
    std::string end();

  private:
    // Of what was read; none: more is to be read.
    std::optional<std::string> marked_line();
    // How it ended, to be put behind "ended".
    std::string last_words();

    const std::string host_;
    PeerProcess* partner_ = nullptr;
    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
    int status_ = 0;           // as waitpid tells it
    std::string text_;         // that was read and not yet given out
    std::string other_line_;   // the last one that is not its own, since an answer
    size_t before_answer_ = 0; // bytes of its standard error
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> errors_;
};

} // namespace gdr::doctor
