#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Processes of one host with each other: GPU memory goes by CUDA IPC where it can be opened, over the HCA
# where not, and the data is right either way.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

export UCX_GDR_IPC=y UCX_PROTO_ENABLE=y
# Copies that cost nothing but their bytes are chosen at all sizes.
export UCX_GDR_IPC_OVERHEAD=0us UCX_GDR_IPC_LATENCY=0us

# went PROGRAM [ARGUMENT]...: sets ipc and direct, the bytes gone by IPC and by the HCA.
went() {
    rm -f "$work/stats"
    UCX_GDR_STATS="$work/stats" run "$@"
    ipc=$(counted ipc_bytes)
    direct=$(counted gpudirect_bytes)
    echo "$ipc bytes by IPC, $direct by GPUDirect RDMA"
}
counted() {
    awk -v name="$1" '{ for (i = 1; i <= NF; ++i) if ($i ~ "^" name "=") { sub(/.*=/, "", $i); sum += $i } }
        END { print sum + 0 }' "$work/stats"
}

# by ipc|hca WHAT PROGRAM [ARGUMENT]...: all of the large messages goes this way.
by() {
    way=$1 what=$2
    shift 2
    echo "$what"
    went "$@"
    case $way in
    ipc) [ "$ipc" -ge 1048576 ] && [ "$direct" -lt "$ipc" ] ;;
    hca) [ "$ipc" = 0 ] && [ "$direct" -ge 1048576 ] ;;
    esac || {
        echo "FAILED: $what: not by $way"
        failed=1
    }
}

messages=tag,tag_unexpected,tag_sync,am,am_eager,am_rndv,stream
large="ucp_transfer --ops tag,am --sizes 1048576 --window 2 --kinds"

for devices in 1 2; do
    export SOFTCUDA_DEVICES=$devices
    by ipc "$devices GPUs" $large cuda:cuda
    for ranks in 2 4; do
        run ucp_transfer --ranks $ranks --ops $messages,put,get --kinds cuda:cuda --sizes 0,1,8,4097,65536,1048576 \
            --window 4
    done
    run ucp_transfer --ops $messages,put,get --kinds all --sizes 8,65536
    run ucp_transfer --ops $messages,put,get --sizes 8,1048576 \
        --kinds slice:cuda,vmm:vmm,cuda:vmm,vmm:cuda,pool:pool,pool:cuda,cuda:pool,vmm:pool,imported:cuda,segments:segments,segments:cuda,managed:vmm,host:vmm
    run ucp_transfer --wakeup --ops $messages --kinds cuda:cuda,vmm:cuda --sizes 8,65536,1048576
    run ucp_transfer --peer-errors --ops $messages --kinds cuda:cuda,vmm:cuda --sizes 8,65536,1048576
done
if protocols_v1; then
    UCX_PROTO_ENABLE=n by ipc "protocols v1" $large cuda:cuda
    UCX_PROTO_ENABLE=n run ucp_transfer --ranks 4 --ops $messages --kinds all --sizes 8,65536,1048576
fi

# What opens and what does not.
by ipc "memory of cuMemCreate" $large vmm:vmm
by hca "memory of a pool" $large pool:pool
SOFTCUDA_IPC=legacy by ipc "handles alone: memory of cuMemAlloc" $large cuda:cuda
SOFTCUDA_IPC=legacy by hca "handles alone: memory of cuMemCreate" $large vmm:vmm
SOFTCUDA_IPC=fabric by ipc "fabric handles" $large fabric:fabric,vmm:fabric,fabric:cuda
SOFTCUDA_IPC=off by hca "no CUDA IPC" $large cuda:cuda,vmm:vmm
SOFTCUDA_P2P=off by hca "GPUs that do not reach one another" $large cuda:cuda,vmm:vmm
SOFTCUDA_P2P=off SOFTCUDA_DEVICES=1 by ipc "one such GPU" $large cuda:cuda,vmm:vmm
UCX_GDR_IPC=n by hca "switched off" $large cuda:cuda
UCX_GDR_IPC_CACHE_SIZE=0 by ipc "nothing stays open" $large cuda:cuda,vmm:vmm,slice:cuda

# Memory that is freed and allocated again.
run ucp_stale
UCX_GDR_IPC_CACHE_SIZE=0 run ucp_stale
for kind in cuda host; do UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 run ucp_death $kind; done

# Other hosts.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    UCPTEST_APART=y by hca "another host" $large cuda:cuda
    echo "two hosts with two processes each"
    UCPTEST_APART=y run ucp_transfer --ranks 4 --ops $messages,put,get --kinds cuda:cuda,vmm:cuda,host:cuda \
        --sizes 8,65536,1048576

    # One rank a host: what UCP chooses is the same with it and without. On one host it is not.
    # Addresses of workers and the width of the tables' columns are left out.
    tables() {
        UCX_PROTO_INFO=y run ucp_transfer --ops tag,am,put,get --kinds cuda:cuda,host:cuda \
            --sizes 8,4096,65536,1048576 >"$work/log" 2>&1
        grep FAILED "$work/log"
        sed -n 's/^\[[^]]*\] \[[^]]*\] *|/|/p' "$work/log" | sed 's/0x[0-9a-f]*//g; s/  */ /g' | sort
    }
    for switch in y n; do
        UCX_GDR_IPC=$switch tables >"$work/together_$switch"
        UCPTEST_APART=y UCX_GDR_IPC=$switch tables >"$work/apart_$switch"
    done
    echo "one process a host: $(wc -l <"$work/apart_n") rows of UCP's tables"
    if ! diff "$work/apart_n" "$work/apart_y"; then
        echo "FAILED: UCP's tables are not the same with CUDA IPC and without"
        failed=1
    elif cmp -s "$work/together_n" "$work/together_y"; then
        echo "FAILED: UCP's tables tell nothing: they are the same on one host, too"
        failed=1
    fi
fi

# UCP's choice from the costs as they are.
unset UCX_GDR_IPC_OVERHEAD UCX_GDR_IPC_LATENCY
small="ucp_transfer --ops tag --sizes 8,64,512 --kinds cuda:cuda"
echo "small messages"
went $small
[ "$ipc" = 0 ] || {
    echo "FAILED: small messages go by IPC"
    failed=1
}
by ipc "large messages" $large cuda:cuda
echo "messages of host memory"
export UCX_PROTO_INFO=y
run ucp_transfer --ops tag --sizes 65536,33554432 --window 4 --kinds host:host >"$work/log" 2>&1
tail -n 1 "$work/log"
if grep "frag cuda" "$work/log"; then
    echo "FAILED: through GPU memory"
    failed=1
fi
exit $failed
