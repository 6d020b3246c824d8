// Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
//
// By the version of UCX and the environment.
#include "protocols.hpp"

#include <cstdlib>

#include <ucp/api/ucp.h>

namespace ucptest {
namespace {

unsigned minor_version()
{
    unsigned major;
    unsigned minor;
    unsigned release;
    ucp_get_version(&major, &minor, &release);
    return minor;
}

} // namespace

bool protocols_v2()
{
    if (const char* chosen = std::getenv("UCX_PROTO_ENABLE")) {
        return *chosen != 'n';
    }
    return minor_version() >= 16;
}

bool gets_use_the_hca()
{
    return !protocols_v2() || minor_version() < 14 || minor_version() > 18;
}

} // namespace ucptest
