// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "abi/processor_puts.hpp"

#include "abi/context_settings.hpp"
#include "abi/transport_list.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace gdr::abi {
namespace {

std::atomic<bool> may_put{false};

} // namespace

void look_for_processor_puts()
{
    constexpr std::array transports{"self", "sm", "shm", "mm", "posix", "sysv", "xpmem"};
    const std::string list = context_setting("TLS").value_or("all");
    if (std::ranges::any_of(transports,
                            [&](const char* name) { return lists_transport(list, name); })) {
        may_put.store(true, std::memory_order_relaxed);
    }
}

bool processor_may_put()
{
    return may_put.load(std::memory_order_relaxed);
}

} // namespace gdr::abi
