// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// ucx-gdr-peer, one side of "ucx-gdr doctor --pair": transfers data by the UCX that programs get,
// as the commands in its standard input say.
#include "doctor/peer/commands.hpp"
#include "doctor/peer/mark.hpp"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <poll.h>
#include <unistd.h>

namespace {

using gdr::peer::Peer;

constexpr int kPause = 1; // ms

// The next line of the standard input, as it comes; none at its end.
class Input {
  public:
    std::optional<std::string> line(Peer& peer)
    {
        for (;;) {
            const size_t end = text_.find('\n');
            if (end != std::string::npos) {
                std::string line = text_.substr(0, end);
                text_.erase(0, end + 1);
                return line;
            }
            // The other side may need this one's progress meanwhile, or its processor.
            pollfd input{STDIN_FILENO, POLLIN, 0};
            while (poll(&input, 1, peer.is_idle() ? kPause : 0) == 0) {
                peer.progress();
            }
            char bytes[4096];
            const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
            if (count <= 0) {
                return std::nullopt;
            }
            text_.append(bytes, static_cast<size_t>(count));
        }
    }

  private:
    std::string text_;
};

void say(int to, const std::string& text)
{
    dprintf(to, "%s%s\n", gdr::peer::kMark.data(), text.c_str());
}

} // namespace

int main()
{
    const int output = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO); // UCX's log
    try {
        Peer peer;
        say(output, introduction(peer));
        Input input;
        while (const auto line = input.line(peer)) {
            say(output, answer(peer, *line));
        }
        return 0;
    } catch (const std::exception& error) {
        say(output, std::string("failed ") + error.what());
        return 1;
    }
}
