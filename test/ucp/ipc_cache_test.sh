#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Where there is no HCA, and from UCX 1.16 on, UCP keeps its cache of registrations, which nobody tells of GPU memory that is freed but gdr, when it
# is asked about what is there now: as much goes by CUDA IPC as without the cache, and all of it is right.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

for hca in /sys/class/infiniband/*; do
    [ ! -e "$hca" ] || skip_all "there is an HCA, ${hca##*/}"
done
says() { UCX_LOG_LEVEL=info run ucp_transfer --ops tag --kinds cuda:cuda --sizes 8 2>&1 | grep -c 'gdr: UCX_RCACHE_ENABLE=n'; }
with_hca=$(says)
unused=$(UCX_TLS=gdr,sm,self UCX_NET_DEVICES=none says)
some=$(UCX_TLS=gdr,sm,self UCX_NET_DEVICES=none,${hca_name}0:1 says)
# shellcheck disable=SC2034 # of environment.sh
emulated_hca=''
export UCX_TLS=gdr,sm,self
without=$(says)
if [ "$(ucx_minor)" -lt 16 ]; then
    check "the cache is switched off with an HCA" [ "$with_hca" -gt 0 ]
    check "with one of its devices" [ "$some" -gt 0 ]
    check "not without one" [ "$without" = 0 ]
    check "not where UCX_NET_DEVICES leaves it out" [ "$unused" = 0 ]
else
    expect "the cache stays on with an HCA" 0 "$with_hca"
fi

# alike WAYS
alike() {
    UCX_RCACHE_ENABLE=n went ucp_stale "$1" all
    as_ever=$ipc
    went ucp_stale "$1" all
    # Not always the same to the byte: a message may find its receiver ready or not.
    check "$1: as much by IPC with the cache" [ "$ipc" -ge $((as_ever * 99 / 100)) ]
    check "$1: which is much" [ "$as_ever" -ge 1048576 ]
}
for devices in $numbers_of_gpus; do
    section "$devices GPUs"
    export SOFTCUDA_DEVICES=$devices
    alike tag,put,get
    run ucp_stale typed all # found out by its keys' maker, too late for this message
    by ipc "large messages" $large cuda:cuda,slice:cuda,vmm:cuda
    extended || continue
    run ucp_transfer --ranks 4 --ops $messages,put,get --kinds cuda:cuda --sizes 0,1,8,4097,65536,1048576 --window 4
    ipc_kinds
done
section ""
run ucp_ipc_steady
section "protocols v1"
if UCX_PROTO_ENABLE=n protocols_v1; then # UCX 1.13's make the CPU read what a put sends
    export UCX_PROTO_ENABLE=n
    alike tag
    run ucp_transfer --ranks 4 --ops $messages --kinds all --sizes 8,65536,1048576
fi
done_testing
