// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// A process that answers lines with lines, on this host or behind a launcher such as ssh. Its own
// lines begin with "peer: "; others, as launchers write them, are passed over.
#pragma once

#include <cstdio>
#include <memory>
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

    void say(const std::string& line);
    // Its next line. Throws std::runtime_error, with what it wrote to its standard error last, if
    // it ends or is silent for long.
    std::string line();
    // Its next line, which has to begin with "ok"; what stands behind that. Throws
    // std::runtime_error.
    std::string answer();

    // Lets it end; then what it wrote to its standard error.
    std::string end();

  private:
    std::string last_words();

    const std::string host_;
    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
    std::string text_; // that was read and not yet given out
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> errors_;
};

} // namespace gdr::doctor
