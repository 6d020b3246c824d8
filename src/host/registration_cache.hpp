// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP's registration cache, which finds registrations by address. UCX's hooks report unmapped
// memory to it; freed GPU memory is reported only by code that detects it.
//
//     UCX's own --apply()--> off --context_begins()--> a program has one: is told of freed memory
//         |
//         +--keep()--> kept     no HCA is used, so nothing of GPU memory is in it
//
// Protocols v2 of UCX 1.13 to 1.15, which are off by default, release registrations of the cache
// that are in use. It is off there, and UCX's own in later series.
#pragma once

#include "host/variable.hpp"

#include <atomic>
#include <cstddef>

namespace gdr::host {

class RegistrationCache final : public Variable {
  public:
    constexpr RegistrationCache()
        : Variable("RCACHE_ENABLE", "n",
                   "protocols v2 of this UCX release registrations that are in use")
    {
    }

    // Whether it has to be off: the series needs that, and the user has not decided.
    bool is_harmful() const;

    // UCP will have the cache although it is harmful, in a process that uses no HCA.
    void keep() { kept_ = true; }
    bool kept() const { return kept_; }

    // A context with variables of its own is being made (abi/context_settings.hpp): it may have the
    // cache although it is off for others.
    void context_begins();

    // Other memory is, or may be, at these addresses than when UCP last registered them. UCP
    // registers them anew for operations that begin from now on. Registrations stay while they are
    // in use. No effect if UCP has no cache. Any thread, even one in which UCP is registering
    // memory.
    void end_registrations(const void* address, size_t length);

  private:
    bool make() override;
    bool is_off() const;

    std::atomic<bool> off_{false};
    std::atomic<bool> kept_{false};
    std::atomic<bool> program_has_one_{false};
};

RegistrationCache& registration_cache();

} // namespace gdr::host
