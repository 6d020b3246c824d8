#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Large transfers over two HCAs at once, UCP's rails: carried by both in equal parts, and right, also
# when one is down for a while; and ended by an error when one fails.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export SOFTHCA_DEVICES=2
export UCX_MAX_RMA_RAILS=2 # of put and get, from UCX 1.14 on, by protocols v2
export UCX_WARN_UNUSED_ENV_VARS=n
kinds=cuda:cuda,host:cuda,host:host
sizes="--sizes 1048576,8388609"

# transfer OP [VARIABLE=VALUE]...: many transfers between two GPUs; sets output and status.
transfer() {
    op=$1
    shift
    output=$(timeout -k 5 60 env "$@" LD_PRELOAD="$runtime${emulated_hca:+$emulated_hca:}$module" \
        "$programs/ucp_transfer" --ops "$op" --kinds cuda:cuda $sizes --iterations 4 2>&1)
    status=$?
}

# Prints the bytes that all processes have sent and fetched by an HCA.
bytes_of() {
    echo "$output" | tr ' ' '\n' | sed -n "s/^bytes_$1=//p" | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

versions="y n"
[ "$(ucx_minor)" -lt 16 ] || versions=y
for protocols in $versions; do
    export UCX_PROTO_ENABLE=$protocols
    section "protocols v2: $protocols"
    run ucp_transfer --ops tag,am,put,get --kinds $kinds $sizes
    section "protocols v2: $protocols, one is down for half a second"
    SOFTHCA_FAULTS="softhca1 down 500 at 20" run ucp_transfer --ops tag --kinds $kinds $sizes

    section "protocols v2: $protocols"
    ops="tag am_rndv"
    [ "$(ucx_minor)" -lt 14 ] || protocols_v1 || ops="$ops put get"
    for op in $ops; do
        transfer "$op" SOFTHCA_STATS=1
        first=$(bytes_of softhca0) second=$(bytes_of softhca1)
        echo "$output"
        expect "$op over two rails" 0 $status
        check "$op: much of it by softhca1" [ $((second * 10)) -gt $((first * 8)) ]
        check "$op: much of it by softhca0" [ $((first * 10)) -gt $((second * 8)) ]
        note "by softhca0 $first bytes, by softhca1 $second"

        transfer "$op" SOFTHCA_FAULTS="softhca1 drop at 20" UCX_GDR_RC_TIMEOUT=30ms
        echo "$output"
        case $output,$status in
        *,0 | *,124) not_ok "$op over a rail that fails" ;;
        *"Endpoint timeout"*) ok "$op over a rail that fails" ;;
        *) not_ok "$op over a rail that fails" ;;
        esac
        note "status $status"
    done
done
done_testing
