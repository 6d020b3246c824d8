#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Devices of two ports on softmlx5: libibverbs' examples, UCX and gdr by the second one, and one port down.
set -u
# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"
: "${mlx5:?}" "${softhca:?}" "${messages:?}" "${top_builddir:?}"
for program in ibv_devinfo ibv_rc_pingpong; do
    command -v $program >/dev/null || skip_all "no $program (package ibverbs-utils)"
done
export SOFTHCA_PORTS=2

# ports: device and port with their states and LIDs, as ibv_devinfo has them.
ports() {
    env LD_PRELOAD="$mlx5" timeout 60 ibv_devinfo 2>/dev/null |
        awk '$1 == "hca_id:" { device = $2 } $1 == "port:" { port = device ":" $2 } $1 == "state:" { state = $2 }
            $1 == "port_lid:" { print port, state, $2 }' | sort | paste -s -d ','
}

expect "a device has two" "mlx5_0:1 PORT_ACTIVE 1,mlx5_0:2 PORT_ACTIVE 2" "$(ports)"
expect "each device has two" \
    "mlx5_0:1 PORT_ACTIVE 1,mlx5_0:2 PORT_ACTIVE 2,mlx5_1:1 PORT_ACTIVE 3,mlx5_1:2 PORT_ACTIVE 4" \
    "$(SOFTHCA_DEVICES=2 ports)"
expect "or one" "mlx5_0:1 PORT_ACTIVE 1" "$(unset SOFTHCA_PORTS && ports)"
expect "three are none" "softhca: SOFTHCA_PORTS=3 is not understood: expected 1 or 2; the default is used" \
    "$(SOFTHCA_PORTS=3 LD_PRELOAD="$mlx5" timeout 60 ibv_devices 2>&1 >/dev/null)"
for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
    both "$program -i 2" "$program -p PORT -n $messages -i 2"
done
pair "from port to port" "$mlx5" "$mlx5" "ibv_rc_pingpong -p PORT -n $messages -c -i 1" \
    "ibv_rc_pingpong -p PORT -n $messages -c -i 2 localhost"
pair "the second one is softhca's next device" "$softhca" "$mlx5" \
    "env SOFTHCA_DEVICES=2 ibv_rc_pingpong -p PORT -n $messages -c -d softhca1" \
    "ibv_rc_pingpong -p PORT -n $messages -c -i 2 localhost"
SOFTHCA_LINK_LAYER=ethernet
export SOFTHCA_LINK_LAYER
both "RoCE: ibv_rc_pingpong -i 2" "ibv_rc_pingpong -p PORT -n $messages -c -g 0 -i 2"
both "RoCE: ibv_ud_pingpong -i 2" "ibv_ud_pingpong -p PORT -n $messages -g 0 -i 2"
unset SOFTHCA_LINK_LAYER

if command -v ucx_perftest >/dev/null && env LD_PRELOAD="$mlx5" timeout 60 ucx_info -d 2>&1 | grep -q 'Transport: rc_mlx5'; then
    expect "UCX finds both" "mlx5_0:1 mlx5_0:2" \
        "$(env LD_PRELOAD="$mlx5" timeout 60 ucx_info -d 2>&1 | sed -n 's/.*Device: \(mlx5.*\)/\1/p' | sort -u | paste -s -d ' ')"
    for devx in y n; do
        for tls in rc_x dc_x ud_x; do
            both "UCX, $tls by the second, SOFTMLX5_DEVX=$devx" "env SOFTMLX5_DEVX=$devx UCX_TLS=$tls,self UCX_NET_DEVICES=mlx5_0:2 \
                ucx_perftest -p PORT -w 5 -n $messages -t tag_bw -s 10000"
        done
    done
    both "UCX, by both" "env UCX_TLS=rc_x,self UCX_MAX_RNDV_RAILS=2 ucx_perftest -p PORT -w 5 -n $messages -t tag_bw -s 1000000"
    tool=$top_builddir/src/tools/ucx-gdr
    if [ -e "$top_builddir/src/preload/.libs/libuct_gdr.so.0" ] && [ -e "$top_builddir/src/emu/softcuda/.libs/libcuda.so.1" ]; then
        gdr="env UCX_TLS=gdr UCX_NET_DEVICES=mlx5_0:2 $tool run --emulate-hca=mlx5 --emulate-gpu ucx_perftest -p PORT"
        pair "gdr by the second" "" "" "$gdr" "$gdr localhost -w 5 -n $messages -t tag_bw -m cuda -s 300000"
    else
        skip_case "gdr" "not built"
    fi
else
    skip_case "UCX" "no ucx_perftest, or without mlx5 transports (package ucx-utils)"
fi

SOFTHCA_FAULTS="softhca1 down 600000 at start"
export SOFTHCA_FAULTS
expect "one is down" "mlx5_0:1 PORT_ACTIVE 1,mlx5_0:2 PORT_DOWN 2" "$(ports)"
both "the other one works" "ibv_rc_pingpong -p PORT -n $messages -c -i 1"
expect "nothing is left" "" "$(left)"
done_testing
