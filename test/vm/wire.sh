# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Inside the virtual machine: two Soft-RoCE devices, rxe0 and rxe1, on the ends v0 and v1 of a wire.
# Sourced. WIRE_MTU: of the Ethernet devices (default 4200, which gives RoCE packets of 4096 bytes).

modprobe rdma_rxe
ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02
for end in v0 v1; do
    # Addresses are there at once, without a search for duplicates.
    echo 0 >/proc/sys/net/ipv6/conf/$end/accept_dad
    ip link set $end mtu "${WIRE_MTU:-4200}" up
done
rdma link add rxe0 type rxe netdev v0
rdma link add rxe1 type rxe netdev v1

# wait_for_port DEVICE STATE
wait_for_port() {
    for _ in $(seq 100); do
        grep -q "$2" "/sys/class/infiniband/$1/ports/1/state" && return
        sleep 0.1
    done
    echo "$1 does not become $2"
    return 1
}
wait_for_port rxe0 ACTIVE && wait_for_port rxe1 ACTIVE || exit 99
