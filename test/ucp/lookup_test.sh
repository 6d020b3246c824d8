#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is known to be host memory is known no longer when it is unmapped; and never without UCX's
# memory hooks. What is known to be device memory is known no longer when it was freed.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

# The address sanitizer unmaps what is freed behind the hooks' back; here at once.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=0:thread_local_quarantine_size_kb=0
export ASAN_OPTIONS
run ucp_lookup
# Without an HCA nothing is registered either, which would tell of memory that has changed.
UCX_TLS=gdr,self,sm UCX_NET_DEVICES=none UCX_LOG_LEVEL=error run ucp_lookup
UCX_MEM_EVENTS=n UCX_LOG_LEVEL=error run ucp_lookup unknown
done_testing
