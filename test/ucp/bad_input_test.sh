#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Altered addresses and keys. UCX says a lot about them, all of it expected.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export UCX_LOG_LEVEL=fatal
run ucp_bad_input host
run ucp_bad_input cuda
done_testing
