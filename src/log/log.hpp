// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// The log, for every directory. It knows no UCX: src/abi gives it UCX's logger as its back end.
#pragma once

namespace gdr::log {

enum class Level { error, warn, diag, info, debug, data };

// Where messages go. Any thread.
struct BackEnd {
    bool (*enabled)(Level level); // whether the user wants to see messages of this level
    void (*write)(Level level, const char* file, unsigned line, const char* message);
};

// From now on messages go there; before, they are dropped. The back end must exist forever.
void set_back_end(const BackEnd& chosen);

bool enabled(Level level);

// Does nothing if the level is not enabled.
[[gnu::format(printf, 4, 5)]] void message(Level level, const char* file, unsigned line,
                                           const char* format, ...);

} // namespace gdr::log

#define gdr_log(level, ...)                                                                        \
    ::gdr::log::message(::gdr::log::Level::level, __FILE__, __LINE__, __VA_ARGS__)
