#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What peers can do to host memory that UCP registered for this side's use alone: docs/reference/security.md says
# where it does.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

case $(ucx_minor) in
1[456])
    skip_all "this UCX uses registrations for more than it made them for"
    ;;
esac
export UCX_LOG_LEVEL=fatal # failures are expected
export UCX_RNDV_THRESH=inf UCX_ZCOPY_THRESH=0
run_v2 ucp_rights send
run_v2 ucp_rights put
run_v2 ucp_rights get
done_testing
