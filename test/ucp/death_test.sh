#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Killed peers.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 # the dead are noticed after 0.5 s
run ucp_death host
run ucp_death cuda
done_testing
