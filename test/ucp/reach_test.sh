#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Whom an HCA reaches: what the port's tables, sysfs and the kernel's routes tell is believed before UCP makes
# a lane, and a refusal names the port, the cause and the way out, where no other HCA does it.
set -u

# In a network namespace of its own, for the routes.
if [ -z "${REACH_NAMESPACE-}" ] && unshare --net ip link set lo up 2>/dev/null; then
    export REACH_NAMESPACE=y
    exec unshare --net "$0"
fi

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
! on_softmlx5 || skip_all "its /sys is made for softhca"

if [ -n "${REACH_NAMESPACE-}" ]; then
    ip link set lo up
    for rail in 0 1; do
        ip link add "rail$rail" type veth peer name "switch$rail"
        ip link set "switch$rail" up
        ip link set "rail$rail" up
        ip addr add "10.9.$rail.1/24" dev "rail$rail"
    done
fi

log=$work/log
transfer() { emulated ucp_transfer --ops tag --sizes 8,65536 "$@" >"$log" 2>&1; }

# told EXPECTED: it is, by each rank once, of which the first one's failure may end the other; unsaid: no reason is.
reasons() { grep -E 'gdr: .*(does not reach|no HCA|not used)' "$log"; }
told() {
    lines=$(reasons | grep -c "$1")
    if [ "$lines" = 1 ] || [ "$lines" = 2 ]; then
        ok "told: $1"
        note "$(reasons | sed -n '1s/.*gdr: //p')"
    else
        not_ok "told: $1" "$log"
    fi
}
unsaid() {
    if reasons >"$work/said"; then not_ok "no reason is told" "$work/said"; else ok "no reason is told"; fi
}

section "a limited member before a full one"
SOFTHCA_PROFILE=pkeys=7fff+8012 check "runs" transfer
unsaid

section "limited members"
SOFTHCA_PROFILE=pkeys=7fff check "are not connected" fails transfer
told "softhca0:1 does not reach .*both ports are limited members"
SOFTHCA_PROFILE=pkeys=7fff UCX_TLS=gdr,tcp check "are by tcp" transfer
told "softhca0:1 does not reach .*both ports are limited members"
SOFTHCA_PROFILE=pkeys=7fff UCX_TLS=all check "are by what there is" transfer
unsaid

section "an NVSwitch's port"
SOFTHCA_PROFILE='nvswitch_port;cx7' check "the other HCA is taken" transfer
unsaid
SOFTHCA_PROFILE='nvswitch_port;cx7' UCX_LOG_LEVEL=diag check "the other HCA is taken, in detail" transfer
check "told" grep -q "not used: softhca0:1 .*NVSwitches" "$log"
SOFTHCA_PROFILE=nvswitch_port check "alone it is no transport" fails transfer
told "no HCA can be used.*softhca0:1 .*NVSwitches"
SOFTHCA_PROFILE=nvswitch_port UCX_TLS=gdr,tcp check "by tcp" transfer

# What the kernel shows of the HCAs: their GIDs' network interfaces.
export SYSFS_PATH="$work/sys"
belongs() { # HCA INDEX INTERFACE
    mkdir -p "$SYSFS_PATH/class/infiniband/$1/ports/1/gid_attrs/ndevs"
    echo "$3" >"$SYSFS_PATH/class/infiniband/$1/ports/1/gid_attrs/ndevs/$2"
}

section "a sub-function with an XDR port"
hca=$SYSFS_PATH/class/infiniband/softhca0 place=$SYSFS_PATH/devices/pci0000:3a/0000:3b:00.0/mlx5_core.sf.4
described() {
    env LD_PRELOAD="$runtime$emulated_hca:$module" ucx_info -d >"$log" 2>&1 && sed -n '/Memory domain: softhca0/,/latency/p' "$log" |
        grep -E "$1"
}
bandwidth() { described bandwidth | sed 's/[^0-9]*\([0-9]*\).*/\1/' | head -n 1; }
export SOFTHCA_PROFILE=speed=ndr # as XDR is told where it is not known
ndr=$(bandwidth)
mkdir -p "$hca/ports/1" "$place"
ln -s "$place" "$hca/device"
echo "800 Gb/sec (4X XDR)" >"$hca/ports/1/rate"
xdr=$(bandwidth)
check "the rate is sysfs'" [ $((xdr / 2)) = "$ndr" ]
note "$ndr MB/s told by the verbs, $xdr with sysfs"
check "the PCI device is its HCA's" described "System device.*3b:00.0"
rm -r "$hca"

section "GIDs of two network namespaces"
export SOFTHCA_PROFILE=link_layer=ethernet,gids=::ffff:10.9.8.7@netns+own
belongs softhca0 0 nowhere0
belongs softhca0 1 lo
check "that of this one is taken" transfer
unsaid
section "a GID of another network namespace"
export SOFTHCA_PROFILE=link_layer=ethernet,gids=::ffff:10.9.8.7@netns+none
check "is not used" fails transfer
told "softhca0:1 has no GID of this network namespace .*nowhere0"

section ""
if [ -z "${REACH_NAMESPACE-}" ]; then
    skip_all "no right to make a network namespace, or no ip"
fi
belongs softhca0 0 rail0
belongs softhca1 0 rail1
export SOFTHCA_PROFILE='link_layer=ethernet,gids=::ffff:10.9.0.1+none;link_layer=ethernet,gids=::ffff:10.9.1.1+none'
section "rails without a route to each other"
UCPTEST_NET_DEVICES='softhca0:1;softhca0:1' check "each reaches its own" transfer
check "all on both sides" transfer
unsaid
export UCPTEST_NET_DEVICES='softhca0:1;softhca1:1'
check "not the other" fails transfer
told "softhca[01]:1 does not reach .*no route .*rail[01] .*UCX_GDR_RC_REACHABILITY=all"
UCPTEST_NET_DEVICES='softhca0:1,lo;softhca1:1,lo' UCX_TLS=gdr,tcp check "by tcp" transfer
UCX_GDR_RC_REACHABILITY=all check "with UCX_GDR_RC_REACHABILITY=all" transfer
section "rails with a route"
ip route add 10.9.1.0/24 via 10.9.0.254 dev rail0 metric 9
ip route add 10.9.0.0/24 via 10.9.1.254 dev rail1 metric 9
check "reach each other" transfer
done_testing
