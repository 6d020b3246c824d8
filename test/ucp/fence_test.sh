#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Fences of a worker that leave the order to the transport.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# Series before 1.14 know no other fence, and warn of the variable.
[ "$(ucx_minor)" -lt 14 ] || export UCX_FENCE_MODE=weak
run ucp_fence
! protocols_v1 || run_v2 ucp_fence
done_testing
