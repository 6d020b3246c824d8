// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// Logs what is wrong with a call.
#include "rc/ops/refusal.hpp"

#include "log/log.hpp"
#include "rc/ops/gather.hpp"

namespace gdr::rc {

ucs_status_t refused(Endpoint& ep, const char* call, std::initializer_list<Limit> limits)
{
    for (const Limit& limit : limits) {
        if (limit.exceeded()) {
            gdr_log(error, "%s is refused: %s is %zu, and %zu at most", call, limit.what,
                    limit.given, limit.most);
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return ep.unavailable();
}

ucs_status_t refused(const Gather& gather, const char* call, size_t most)
{
    if (gather.length == Gather::kUnregistered) {
        gdr_log(error, "%s is refused: a piece of memory has no handle (memh)", call);
    } else {
        gdr_log(error, "%s is refused: the length is %zu, and %zu at most", call, gather.length,
                most);
    }
    return UCS_ERR_INVALID_PARAM;
}

} // namespace gdr::rc
