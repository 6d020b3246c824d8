// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#include "host/variable.hpp"

#include "abi/settings.hpp"
#include "log/log.hpp"

namespace gdr::host {

bool Variable::is_open() const
{
    return !abi::user_setting(name_).has_value();
}

void Variable::report() const
{
    if (applied()) {
        gdr_log(info, "UCX_%s=%s: %s", name_, value_, reason_);
    } else if (refused()) {
        gdr_log(warn, "UCX did not take UCX_%s=%s, set it in the environment: %s", name_, value_,
                reason_);
    }
}

} // namespace gdr::host
