#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Several paths of one port: how many there are, and large transfers over two of them.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

paths() {
    env LD_PRELOAD="$runtime$emulated_hca:$module" ucx_info -d 2>/dev/null |
        sed -n "/Device: ${hca_name}0:1/,/num paths/s/.*num paths: //p" | head -n 1
}

section "paths of a port"
expect "of 100 Gb/s" 1 "$(paths)"
expect "as told" 3 "$(UCX_GDR_RC_NUM_PATHS=3 paths)"
expect "as many as there may be" 16 "$(UCX_GDR_RC_NUM_PATHS=100 paths)"
expect "of 400 Gb/s" 2 "$(SOFTHCA_PROFILE=speed=ndr paths)"
bonds() (
    export SYSFS_PATH="$work/sys" SOFTHCA_PROFILE=link_layer=ethernet
    # lo: a network interface that this machine has
    bonding=$SYSFS_PATH/class/net/lo/bonding ndevs=$SYSFS_PATH/class/infiniband/softhca0/ports/1/gid_attrs/ndevs
    mkdir -p "$bonding" "$ndevs"
    for gid in 0 1 2 3; do echo lo >"$ndevs/$gid"; done
    echo "ens1f0 ens1f1" >"$bonding/slaves"
    echo "802.3ad 4" >"$bonding/mode"
    paths
    echo "active-backup 1" >"$bonding/mode"
    paths
)
if on_softmlx5; then
    skip_case "of bonds" "softmlx5 emulates no Ethernet"
else
    expect "of a bond of two links, and of one with a link in reserve" "2 1" "$(bonds | tr '\n' ' ' | sed 's/ $//')"
fi

# transfers PATHS: over so many paths.
transfers() {
    UCX_GDR_RC_NUM_PATHS=$1 SOFTHCA_STATS=1 emulated ucp_transfer --ops tag,am_rndv,put,get --kinds cuda:cuda,host:cuda,host:host \
        --sizes 1048576,8388609 >"$work/paths.$1" 2>&1
}

# counted PATHS NAME: the sum of a counter of all processes then.
counted() {
    tr ' ' '\n' <"$work/paths.$1" | sed -n "s/^$2=//p" | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

export UCX_MAX_RMA_RAILS=2 UCX_WARN_UNUSED_ENV_VARS=n
for protocols in n y; do
    export UCX_PROTO_ENABLE=$protocols
    section "two paths, protocols v2: $protocols"
    for number in 1 2; do
        check "transfers, paths: $number" transfers $number
        sed 's/^/# /' "$work/paths.$number"
    done
    expect "a queue pair more on both sides" 4 "$(($(counted 2 queue_pairs) - $(counted 1 queue_pairs)))"
    # Protocols v1 split what they read in as many pieces either way.
    if [ $protocols = y ]; then
        check "each path reads" [ $((2 * $(counted 2 reads))) -ge $((3 * $(counted 1 reads))) ]
    fi
done
done_testing
