// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "log/log.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace gdr::log {
namespace {

std::atomic<const BackEnd*> back_end{nullptr};

} // namespace

void set_back_end(const BackEnd& chosen)
{
    back_end.store(&chosen, std::memory_order_release);
}

bool enabled(Level level)
{
    const BackEnd* to = back_end.load(std::memory_order_acquire);
    return to != nullptr && to->enabled(level);
}

void message(Level level, const char* file, unsigned line, const char* format, ...)
{
    if (!enabled(level)) {
        return;
    }
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    back_end.load(std::memory_order_acquire)->write(level, file, line, message);
}

} // namespace gdr::log
