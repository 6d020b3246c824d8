#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libibverbs' examples and perftest over the distribution's libmlx5 on softmlx5, and what it refuses.
set -u
# shellcheck source=test/emu/softmlx5.sh
. "${top_srcdir:?}/test/emu/softmlx5.sh"
: "${mlx5:?}" "${softhca:?}" "${messages:?}"
for program in ibv_devinfo ibv_rc_pingpong; do
    command -v $program >/dev/null || skip_all "no $program (package ibverbs-utils)"
done

# ---- the device

env LD_PRELOAD="$mlx5" LD_DEBUG=files timeout 60 ibv_devinfo -v >"$work/devinfo" 2>"$work/loaded"
expect "the device is a ConnectX that says what it is" "mlx5_0 4129 SOFT_0000000001 PORT_ACTIVE" \
    "$(awk '$1 ~ /^(hca_id|vendor_part_id|board_id|state):/ { printf "%s%s", separator, $2; separator = " " }' "$work/devinfo")"
check "by libmlx5" grep -q 'calling init:.*libmlx5' "$work/loaded"
expect "two devices" "mlx5_0 mlx5_1" \
    "$(env LD_PRELOAD="$mlx5" SOFTHCA_DEVICES=2 timeout 60 ibv_devices | awk '/mlx5/ { print $1 }' | sort | paste -s -d ' ')"
expect "one of Ethernet" "Ethernet RoCE v2" \
    "$(env LD_PRELOAD="$mlx5" SOFTHCA_LINK_LAYER=ethernet timeout 60 ibv_devinfo -v 2>&1 |
        sed -n 's/.*link_layer:\s*//p;s/.*GID\[ *0\].*, //p' | sort -u | paste -s -d ' ')"
check "the module by which it takes GPU memory is there, whatever this machine has" \
    env LD_PRELOAD="$mlx5" test -d /sys/module/nvidia_peermem

# ---- libibverbs' examples: RC with checked data, with events, with timestamps, by the extended verbs

both "ibv_rc_pingpong -c" "ibv_rc_pingpong -p PORT -n $messages -c"
both "ibv_rc_pingpong -e" "ibv_rc_pingpong -p PORT -n $messages -c -e"
both "ibv_rc_pingpong -t" "ibv_rc_pingpong -p PORT -n $messages -t"
both "ibv_rc_pingpong -N" "ibv_rc_pingpong -p PORT -n $messages -c -N"
both "ibv_rc_pingpong, 1 MiB, with a route" "ibv_rc_pingpong -p PORT -n $messages -c -s 1048576 -g 0"
both "ibv_srq_pingpong" "ibv_srq_pingpong -p PORT -n $messages"
both "ibv_srq_pingpong -e" "ibv_srq_pingpong -p PORT -n $messages -e"
both "ibv_uc_pingpong" "ibv_uc_pingpong -p PORT -n $messages"
both "ibv_uc_pingpong -e" "ibv_uc_pingpong -p PORT -n $messages -e"
both "ibv_ud_pingpong" "ibv_ud_pingpong -p PORT -n $messages"
both "ibv_ud_pingpong -e, with a route" "ibv_ud_pingpong -p PORT -n $messages -e -g 0"

SOFTHCA_LINK_LAYER=ethernet
export SOFTHCA_LINK_LAYER
both "RoCE: ibv_rc_pingpong" "ibv_rc_pingpong -p PORT -n $messages -c -g 0"
both "RoCE: ibv_uc_pingpong" "ibv_uc_pingpong -p PORT -n $messages -g 0"
both "RoCE: ibv_ud_pingpong" "ibv_ud_pingpong -p PORT -n $messages -g 0"
both "RoCE: ibv_ud_pingpong, an IPv4 address" "ibv_ud_pingpong -p PORT -n $messages -g 1"
unset SOFTHCA_LINK_LAYER

# ---- DEVX, ports, short messages in completions, forks

GDR_TEST_HCA=mlx5 timeout 120 "$top_builddir/test/emu/softmlx5_test" >"$work/cases" 2>&1
status=$?
subtests "$work/cases" || status="$status, but not all of the cases"
expect "DEVX, ports, short messages in completions, forks: status" 0 "$status"

# ---- one process with softhca, the other with softmlx5

pair "from softmlx5 to softhca" "$softhca" "$mlx5" "ibv_rc_pingpong -p PORT -n $messages -c" \
    "ibv_rc_pingpong -p PORT -n $messages -c localhost"
pair "from softhca to softmlx5, datagrams" "$mlx5" "$softhca" "ibv_ud_pingpong -p PORT -n $messages -g 0" \
    "ibv_ud_pingpong -p PORT -n $messages -g 0 localhost"

# ---- perftest

if command -v ib_send_lat >/dev/null; then
    for test in "ib_send_lat" "ib_send_lat -I 100" "ib_send_bw -e" "ib_send_bw -r 64 --use-srq" "ib_send_lat -c UD" "ib_send_bw -c UC" "ib_write_lat -c UC" "ib_write_lat" \
        "ib_write_bw" "ib_write_bw -q 4 --use_old_post_send" "ib_read_bw" "ib_read_lat" "ib_atomic_lat" \
        "ib_atomic_bw -A CMP_AND_SWAP"; do
        both "$test" "$test -p PORT -d mlx5_0 -n $messages -F"
    done
    SOFTHCA_STATS=1
    export SOFTHCA_STATS
    both "ib_write_bw, counted" "ib_write_bw -p PORT -d mlx5_0 -n 100 -s 4096 -F"
    unset SOFTHCA_STATS
    expect "the counts are softhca's" "writes=100 bytes=409600" \
        "$(sed -n 's/.*softhca .*\(writes=[0-9]*\) .*\( bytes=[0-9]*\) .*/\1\2/p' "$work/client")"
else
    skip_case "perftest" "no ib_send_lat (package perftest)"
fi

# ---- what goes wrong

# fails_with NAME MESSAGE COMMAND: the client tells, and ends in time.
fails_with() {
    next_port
    preload=$mlx5
    # shellcheck disable=SC2046,SC2086
    serve timeout 60 $3 -p "$port"
    # shellcheck disable=SC2086
    env LD_PRELOAD="$mlx5" ${faults:+SOFTHCA_FAULTS="$faults"} timeout 60 $3 -p "$port" localhost >"$work/client" 2>&1
    status=$?
    kill "$server" 2>/dev/null
    wait "$server"
    if [ $status != 0 ] && [ $status != 124 ] && grep -q "$2" "$work/client"; then
        ok "$1"
    else
        not_ok "$1" "$work/client"
    fi
}
faults="error rem_access_err at 3"
fails_with "an injected error" "Failed status remote access error (10)" "ibv_rc_pingpong -n 20"
faults="drop at 3"
fails_with "a peer out of reach" "Failed status transport retry counter exceeded (12)" "ibv_rc_pingpong -n 20"
faults=
fails_with "XRC is refused" "Couldn't Open the XRC Domain\|XRC" "ibv_xsrq_pingpong -n 20"

# ---- what is left

expect "nothing is left" "" "$(left)"
# One is killed that shows devices, and has a fabric.
next_port
preload=$mlx5
serve ibv_rc_pingpong -p $port
kill -KILL "$server"
wait "$server" 2>/dev/null
expect "the killed leave something" 2 "$(left | wc -l)"
env LD_PRELOAD="$mlx5" timeout 60 ibv_devinfo >"$work/client" 2>&1
expect "which the next one removes" "" "$(left)"
done_testing
