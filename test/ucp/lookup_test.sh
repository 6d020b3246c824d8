#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is known to be host memory is known no longer when it is unmapped; and never without UCX's
# memory hooks.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

case ${GDR_SANITIZERS:-none} in
none) run ucp_lookup ;;
*) echo "what is known is not looked at under a sanitizer, whose runtime has the hooks' place" ;;
esac
UCX_MEM_EVENTS=n UCX_LOG_LEVEL=error run ucp_lookup unknown
exit $failed
