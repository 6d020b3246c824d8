#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX on softmlx5: its accelerated transports, which write into libmlx5's queues themselves, and gdr, with
# memory of the host and of an emulated GPU; and a process with softhca as the peer.
set -u
# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"
: "${mlx5:?}" "${softhca:?}" "${messages:?}" "${top_builddir:?}"
command -v ucx_perftest >/dev/null || skip_all "no ucx_perftest (package ucx-utils)"

env LD_PRELOAD="$mlx5" timeout 60 ucx_info -d >"$work/transports" 2>&1
grep -q 'Transport: rc_mlx5' "$work/transports" || {
    grep -q 'Transport: rc_verbs' "$work/transports" || not_ok "UCX finds the device" "$work/transports"
    skip_all "this UCX has no mlx5 transports"
}
expect "UCX has its transports for it" "dc_mlx5 rc_mlx5 rc_verbs ud_mlx5 ud_verbs" \
    "$(sed -n 's/.*Transport: \(\(rc\|ud\|dc\)_.*\)/\1/p' "$work/transports" | sort | paste -s -d ' ')"

# ucx TLS ARGUMENTS: by these transports alone.
ucx() {
    export UCX_TLS="$1"
    both "${without-}$1 $2" "ucx_perftest -p PORT -w 5 -n $messages $2" # the server of newer releases needs it, too
    unset UCX_TLS
}

# Queues that UCX makes itself by DEVX, and those that libmlx5 makes for it.
for devx in y n; do
    export SOFTMLX5_DEVX=$devx
    if [ $devx = n ]; then
        without="without DEVX: "
        # From 1.16 on UCX's strong fence reads with a key that only DEVX makes, whether there is one or not.
        UCX_FENCE_MODE=weak
        export UCX_FENCE_MODE
    fi
    env LD_PRELOAD="$mlx5" UCX_LOG_LEVEL=debug UCX_TLS=rc_x,self timeout 60 ucx_info -epw -u t >"$work/objects" 2>&1
    expect "${without-}UCX opens the device so" $devx "$(if grep -q 'opened DEVX md' "$work/objects"; then echo y; else echo n; fi)"
    ucx rc_x "-t am_lat -x rc_mlx5 -d mlx5_0:1"
    ucx rc_x "-t put_lat -x rc_mlx5 -d mlx5_0:1"
    ucx rc_x "-t am_bw -D bcopy -s 4096 -x rc_mlx5 -d mlx5_0:1"
    ucx rc_x "-t am_bw -D zcopy -s 4096 -x rc_mlx5 -d mlx5_0:1"
    ucx ud_x "-t am_lat -x ud_mlx5 -d mlx5_0:1"
    for tls in rc_x,self ud_x,self rc_v,ud_v,self; do
        ucx $tls "-t tag_lat"
        ucx $tls "-t tag_bw -s 100000"
    done
    for test in "ucp_put_lat" "ucp_put_bw -s 8192" "ucp_get -s 65536" "ucp_fadd" "ucp_cswap" "ucp_swap" "stream_bw -s 4096" \
        "tag_lat -E sleep"; do
        ucx rc_x,self "-t $test"
    done

    ucx dc_x "-t am_lat -x dc_mlx5 -d mlx5_0:1"
    ucx dc_x "-t put_bw -D zcopy -s 4096 -x dc_mlx5 -d mlx5_0:1"
    for test in "tag_lat" "tag_bw -s 100000" "ucp_put_lat" "ucp_get -s 65536" "ucp_fadd" "ucp_cswap" "tag_lat -E sleep"; do
        ucx dc_x,self "-t $test"
    done
    ucx dc_x,self "-t tag_bw -s 8 -n 3000" # UCX's flow control answers where a message came from
done
unset SOFTMLX5_DEVX UCX_FENCE_MODE without

# ---- RoCE

SOFTHCA_LINK_LAYER=ethernet UCX_IB_ROCE_REACHABILITY_MODE=all # UCX 1.22 looks for a route, and the ports have no interface
export SOFTHCA_LINK_LAYER UCX_IB_ROCE_REACHABILITY_MODE
for tls in rc_x ud_x dc_x; do
    ucx $tls,self "-t tag_lat"
    ucx $tls,self "-t tag_bw -s 100000"
done
unset SOFTHCA_LINK_LAYER

# ---- gdr

tool=$top_builddir/src/tools/ucx-gdr
gdr() { # NAME SERVER_HCA CLIENT_HCA ARGUMENTS
    server_hca=$2 client_hca=$3
    pair "gdr, $1: $4" "" "" "env UCX_TLS=gdr $tool run --emulate-hca=$server_hca --emulate-gpu ucx_perftest -p PORT" \
        "env UCX_TLS=gdr $tool run --emulate-hca=$client_hca --emulate-gpu ucx_perftest -p PORT localhost -w 5 -n $messages $4"
}
if [ "${GDR_SANITIZERS:-none}" != none ]; then
    skip_case "gdr" "programs of the system have no sanitizer's run-time library, and ucx-gdr run preloads none"
elif [ -e "$top_builddir/src/preload/.libs/libuct_gdr.so.0" ] && [ -e "$top_builddir/src/emu/softcuda/.libs/libcuda.so.1" ]; then
    for arguments in "-t tag_lat" "-t tag_bw -s 300000" "-t tag_bw -m cuda -s 300000" "-t ucp_put_lat -m cuda" "-t ucp_get -m cuda -s 65536" \
        "-t ucp_fadd"; do
        gdr "both on softmlx5" mlx5 mlx5 "$arguments"
    done
    SOFTHCA_LINK_LAYER=ethernet
    export SOFTHCA_LINK_LAYER
    gdr "RoCE" mlx5 mlx5 "-t tag_bw -m cuda -s 300000"
    unset SOFTHCA_LINK_LAYER
    gdr "to softhca" softhca mlx5 "-t tag_bw -m cuda -s 300000"
    gdr "from softhca" mlx5 softhca "-t tag_bw -m cuda -s 300000"
    expect "ucx-gdr tells which" "verdict    UCX has gdr, on mlx5_0:1 (emulated by softmlx5)" \
        "$("$tool" info --emulate-hca=mlx5 --emulate-gpu 2>/dev/null | grep '^verdict')"
    expect "and knows no other" 2 "$("$tool" run --emulate-hca=mlx6 true 2>/dev/null; echo $?)"
else
    skip_case "gdr" "not built"
fi
expect "nothing is left" "" "$(left)"
done_testing
