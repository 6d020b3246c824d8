#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The life of UCP's objects. Operations that are in flight when an endpoint is closed by force are
# aborted, which UCX 1.13 can only do with its first generation of protocols.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

run ucp_lifetime host
first_protocols
run ucp_lifetime host
run ucp_lifetime cuda
exit $failed
