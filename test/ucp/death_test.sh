#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Killed peers. With UCX 1.13's first generation of protocols: the second cannot abort requests there
# (its abort functions are assertions).
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

first_protocols
run ucp_death host
run ucp_death cuda
exit $failed
