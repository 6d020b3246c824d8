#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCP's short sends, without a look at the memory: taken where every transport of the process is gdr, and never again
# after another appears; never without UCX's memory hooks, or where the user decides about the cache of memory types.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

run ucp_unseen taken 8
run_v2 ucp_unseen taken 8
run ucp_unseen taken 1500
run_v2 ucp_unseen taken 1500
UCX_MEM_EVENTS=n UCX_LOG_LEVEL=error run ucp_unseen never 8
UCX_MEM_MMAP_HOOK_MODE=none UCX_LOG_LEVEL=error run ucp_unseen never 8
UCX_MEMTYPE_CACHE=n run ucp_unseen never 8
UCX_TLS=gdr,self run_v2 ucp_unseen never 8
run ucp_unseen other tcp,gdr lo
run_v2 ucp_unseen other tcp,gdr lo
run ucp_unseen other self,gdr lo
run ucp_unseen other posix,self,gdr lo
run ucp_unseen other tcp lo
done_testing
