#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device memory that HCAs can register in part only, since the GPU's BAR1 aperture is smaller, or not
# at all: registered in parts, else staged, and told once.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

messages=tag,tag_unexpected,am,stream
ops=$messages,put,get
export SOFTCUDA_BAR1=16M
section "16 MiB of BAR1"
run ucp_transfer --ops $ops --kinds slice:slice,host:slice --sizes 8,65536,1048576
SOFTHCA_GPU_DIRECT=peermem run ucp_transfer --ops $ops --kinds slice:slice --sizes 8,65536
run_v2 ucp_transfer --ops $ops --kinds slice:slice,host:slice --sizes 8,65536,1048576
export SOFTCUDA_BAR1=512K
section "512 KiB of BAR1"
# UCX 1.18 and later stage through 512 MiB of GPU memory too, and do not go on where that cannot be registered:
# docs/developers/defects.md.
[ "$(ucx_minor)" -lt 18 ] || export UCX_RNDV_FRAG_MEM_TYPES=host
run ucp_transfer --ops tag --kinds cuda:cuda,slice:slice,host:cuda --sizes 8,65536,1048576
run_v2 ucp_transfer --ops $ops --kinds cuda:cuda,slice:slice,host:cuda --sizes 8,65536,1048576
section ""
unset SOFTCUDA_BAR1 UCX_RNDV_FRAG_MEM_TYPES
protocols_v1 || messages=$ops # their put and get need memory that can be registered
run ucp_transfer --ops $messages --kinds imported:imported,host:imported --sizes 8,65536,1048576
run_v2 ucp_transfer --ops $ops --kinds imported:imported,host:imported --sizes 8,65536,1048576

output=$(SOFTCUDA_BAR1=16M run ucp_transfer --ops tag --kinds slice:slice --sizes 65536 --iterations 3)
echo "$output"
expect "each of two ranks says once that memory is registered in parts, and why" 2 \
    "$(echo "$output" | grep -c 'not registered as a whole, but in parts.*BAR1')"
done_testing
