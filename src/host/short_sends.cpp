// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// UCP decides by libucs's memory type cache (memtype_cache.hpp).
#include "host/short_sends.hpp"

#include "host/memtype_cache.hpp"
#include "log/log.hpp"

namespace gdr::host {

ShortSends& short_sends()
{
    static constinit ShortSends instance;
    return instance;
}

bool ShortSends::is_decided(bool ours, bool by_ucp) const
{
    const std::lock_guard lock(mutex_);
    return opened_ == Opened::others || (ours && (opened_ != Opened::none || !by_ucp));
}

void ShortSends::opens(bool ours, bool safe)
{
    const std::lock_guard lock(mutex_);
    if (!safe) {
        opened_ = Opened::others;
    } else if (!ours && opened_ != Opened::others) {
        opened_ = Opened::ours_and_mpis;
    } else if (opened_ == Opened::none) {
        opened_ = Opened::ours;
    }
    decide();
}

void ShortSends::mpi_calls_come()
{
    const std::lock_guard lock(mutex_);
    mpi_calls_come_ = true;
    decide();
}

void ShortSends::device_memory_comes()
{
    const std::lock_guard lock(mutex_);
    device_memory_comes_ = true;
    decide();
}

void ShortSends::decide()
{
    const bool allowed = opened_ == Opened::ours || (opened_ == Opened::ours_and_mpis &&
                                                     mpi_calls_come_ && !device_memory_comes_);
    if (!memtype_cache().held() || allowed == applied()) {
        return;
    }
    if (allowed) {
        apply();
    } else {
        undo();
    }
    gdr_log(debug, "UCP's short sends %s a look at what memory they are of",
            allowed ? "go without" : "take");
}

bool ShortSends::make()
{
    memtype_cache().look_empty(true);
    return true;
}

void ShortSends::take_back()
{
    memtype_cache().look_empty(false);
}

} // namespace gdr::host
