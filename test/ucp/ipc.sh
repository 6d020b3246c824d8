# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Processes of one host with each other: which way their GPU memory goes, and what all the ways have in common. Sourced
# after environment.sh.


# GPUs that the processes may see: one after the other, but where everything takes four times as long.
# shellcheck disable=SC2034 # used by those who source this
numbers_of_gpus='1 2'
# shellcheck disable=SC2034
[ "${GDR_SANITIZERS:-none}" = none ] || numbers_of_gpus=2

export UCX_GDR_IPC=y UCX_PROTO_ENABLE=y
# Copies that cost nothing but their bytes are chosen at all sizes.
export UCX_GDR_IPC_OVERHEAD=0us UCX_GDR_IPC_LATENCY=0us

# went PROGRAM [ARGUMENT]...: sets ipc and direct, the bytes gone by IPC and by the HCA.
went() {
    rm -f "$work/stats"
    UCX_GDR_STATS="$work/stats" run "$@"
    ipc=$(counted ipc_bytes)
    direct=$(counted gpudirect_bytes)
    note "$ipc bytes by IPC, $direct by GPUDirect RDMA"
}
counted() {
    awk -v name="$1" '{ for (i = 1; i <= NF; ++i) if ($i ~ "^" name "=") { sub(/.*=/, "", $i); sum += $i } }
        END { print sum + 0 }' "$work/stats"
}

# by ipc|hca WHAT PROGRAM [ARGUMENT]...: all of the large messages goes this way. UCP may copy memory that does not open
# into pieces of GPU memory of its own, as 1.18 does, and send those by IPC: it is kept from that where the HCA is meant.
by() {
    way=$1 what=$2
    shift 2
    [ "$way" = ipc ] || export UCX_RNDV_FRAG_MEM_TYPES=host
    went "$@"
    unset UCX_RNDV_FRAG_MEM_TYPES
    check "$what: by $way" went_by "$way"
}
went_by() {
    case $1 in
    ipc) [ "$ipc" -ge 1048576 ] && [ "$direct" -lt "$ipc" ] ;;
    hca) [ "$ipc" = 0 ] && [ "$direct" -ge 1048576 ] ;;
    esac
}

messages=tag,tag_unexpected,tag_sync,am,am_eager,am_rndv,stream
large="ucp_transfer --ops tag,am --sizes 1048576 --window 2 --kinds"

# Messages of memory of cudaMalloc among 2 and 4 ranks.
ipc_messages() {
    by ipc "two ranks" $large cuda:cuda
    for ranks in 2 4; do
        run ucp_transfer --ranks $ranks --ops $messages,put,get --kinds cuda:cuda --sizes 0,1,8,4097,65536,1048576 \
            --window 4
    done
    run ucp_transfer --wakeup --ops $messages --kinds cuda:cuda,vmm:cuda --sizes 8,65536,1048576
    run ucp_transfer --peer-errors --ops $messages --kinds cuda:cuda,vmm:cuda --sizes 8,65536,1048576
}

# Every kind of memory with others.
ipc_kinds() {
    run ucp_transfer --ops $messages,put,get --kinds all --sizes 8,65536
    run ucp_transfer --ops $messages,put,get --sizes 8,1048576 \
        --kinds slice:cuda,vmm:vmm,cuda:vmm,vmm:cuda,pool:pool,pool:cuda,cuda:pool,vmm:pool,imported:cuda,segments:segments,segments:cuda,managed:vmm,host:vmm
}

# What opens whatever the driver, and what does not.
ipc_openings() {
    by ipc "memory of cuMemCreate" $large vmm:vmm
    by hca "memory of a pool" $large pool:pool
    UCX_GDR_IPC=n by hca "switched off" $large cuda:cuda
    UCX_GDR_IPC_CACHE_SIZE=0 by ipc "nothing stays open" $large cuda:cuda,vmm:vmm,slice:cuda
    UCX_GDR_IPC_CACHE_SIZE=2m by ipc "less stays open than is used" $large cuda:cuda,vmm:cuda --ranks 4
}

# Memory that is freed and allocated again, and peers that die.
ipc_ends() {
    run ucp_stale
    UCX_GDR_IPC_CACHE_SIZE=0 run ucp_stale
    for kind in cuda host; do UCX_GDR_RC_TIMEOUT=60ms UCX_GDR_RC_RETRY_COUNT=6 run ucp_death $kind; done
}
