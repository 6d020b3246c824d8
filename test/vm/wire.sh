# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Inside the virtual machine: two Soft-RoCE devices, rxe0 and rxe1, on the ends v0 and v1 of a wire.
# Sourced. The ends have IPv6 link-local and IPv4 addresses: GIDs 0 and 1 of the devices.

# wait_for_port DEVICE STATE
wait_for_port() {
    for _ in $(seq 100); do
        grep -q "$2" "/sys/class/infiniband/$1/ports/1/state" && return
        sleep 0.1
    done
    echo "$1 does not become $2"
    return 1
}

[ ! -e /sys/class/infiniband/rxe1 ] || return 0 # another script of this boot made them
modprobe rdma_rxe
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
for end in v0 v1; do
    # Addresses are there at once, without a search for duplicates, and stay when the link goes down.
    echo 0 >/proc/sys/net/ipv6/conf/$end/accept_dad
    echo 1 >/proc/sys/net/ipv6/conf/$end/keep_addr_on_down
    # Both ends are this machine: what comes in has an address of its own as the source.
    echo 1 >/proc/sys/net/ipv4/conf/$end/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$end/rp_filter
    ip link set $end mtu 4200 up # packets of 4096 bytes
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip address add 10.9.0.1/24 dev v0
ip address add 10.9.0.2/24 dev v1
rdma link add rxe0 type rxe netdev v0
rdma link add rxe1 type rxe netdev v1

wait_for_port rxe0 ACTIVE && wait_for_port rxe1 ACTIVE || exit 99
