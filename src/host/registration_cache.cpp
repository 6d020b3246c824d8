// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "host/registration_cache.hpp"

#include "abi/context_settings.hpp"
#include "abi/memory_events.hpp"
#include "abi/series.hpp"
#include "abi/settings.hpp"

namespace gdr::host {
namespace {

bool user_wants_none(const char* name)
{
    const auto setting = abi::user_setting(name);
    return setting && abi::says_no(*setting);
}

} // namespace

RegistrationCache& registration_cache()
{
    static constinit RegistrationCache instance;
    return instance;
}

bool RegistrationCache::is_harmful() const
{
    return !abi::series().caches_soundly && is_open();
}

bool RegistrationCache::make()
{
    const bool taken = abi::set_default(name(), value());
    off_ = taken;
    return taken;
}

void RegistrationCache::context_begins()
{
    if (const auto setting = abi::context_setting(name()); setting && !abi::says_no(*setting)) {
        program_has_one_ = true;
    }
}

bool RegistrationCache::is_off() const
{
    static const bool by_user = user_wants_none(name());
    return (by_user || off_.load(std::memory_order_relaxed)) &&
           !program_has_one_.load(std::memory_order_relaxed);
}

void RegistrationCache::end_registrations(const void* address, size_t length)
{
    if (length != 0 && !is_off()) {
        abi::report_freed(address, length);
    }
}

} // namespace gdr::host
