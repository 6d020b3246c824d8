#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# An HCA is there and cannot be used. Who names gdr in UCX_TLS is told why, once and at UCX's usual level,
# by stock programs and under every MPI; who does not is told nothing, and has UCX's other transports.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
! on_softmlx5 || skip_all "what an HCA may lack is emulated by softhca"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export GDR_PRELOAD=$runtime$programs/.libs/libhca_defects.so:$emulated_hca:$module
launch=(env "LD_PRELOAD=$GDR_PRELOAD")

# says WHAT LINES LOG...: so many lines say why.
says() {
    local what=$1 lines=$2 found
    shift 2
    found=$(cat "$@" | grep -cE 'gdr: .*(no HCA|is not available|is not used|not used:)')
    if [[ $found -eq $lines ]] && [[ $lines -eq 0 || $(cat "$@" | grep -c "$expected") -eq $lines ]]; then
        ok "$what: $lines lines"
        note "$(grep -ahm 1 -o 'gdr: .*' "$1")"
    else
        not_ok "$what: $lines lines" "$@"
        note "$found lines, expected: $expected"
    fi
}

# unusable EXPECTED: every way to meet the HCA of this environment.
unusable() {
    expected=$1
    "${launch[@]}" ucx_info -d >"$log" 2>&1
    says "ucx_info, UCX_TLS=gdr" 1 "$log"
    UCX_TLS=all "${launch[@]}" ucx_info -d >"$log" 2>&1
    says "ucx_info, UCX_TLS=all" 0 "$log"
    unusable_by_ucp "$1"
}

# The same but for ucx_info, which opens UCX's own transports whatever UCX_TLS says.
unusable_by_ucp() {
    expected=$1
    UCX_TLS=tcp,self check "over tcp" perftest_pair "$work/pair" 60 -t tag_lat -n 10
    says "ucx_perftest over tcp" 0 "$work"/pair.*
    UCX_TLS=^ib check "by whatever there is" perftest_pair "$work/pair" 60 -t tag_lat -n 10
    says "ucx_perftest over all but UCX's own InfiniBand" 0 "$work"/pair.*
    check "not without a transport" fails perftest_pair "$work/pair" 60 -t tag_lat -n 10
    says "ucx_perftest, UCX_TLS=gdr: server and client" 2 "$work"/pair.*
}

section "the port is down"
SOFTHCA_FAULTS="down 600000 at start" unusable "softhca0:1 is down (.*cable"
section "the port is down, Ethernet"
SOFTHCA_FAULTS="down 600000 at start" SOFTHCA_LINK_LAYER=ethernet unusable "is its network interface up"
section "two ports are down"
SOFTHCA_FAULTS="down 600000 at start" SOFTHCA_DEVICES=2 unusable "softhca0:1 is down .*softhca1:1 is down"
section "no permission"
HCA_DEFECT=forbidden unusable "Permission denied (its file in /dev/infiniband"
section "no device file"
HCA_DEFECT=absent unusable "No such file or directory (its file in /dev/infiniband"
section "no GID"
SOFTHCA_PROFILE=softhca,gids=none unusable "softhca0:1 has no GID (.*network interface"
section "no usable GID"
SOFTHCA_FAULTS="unusable 0; unusable 1" SOFTHCA_LINK_LAYER=ethernet \
    unusable "softhca0:1 has no usable GID: .*index 1 (Invalid argument), 0 (Invalid argument)"
section "no partition key"
SOFTHCA_PROFILE=softhca,pkeys=0 unusable "softhca0:1 has no partition key (.*subnet manager"
section "64 KiB of locked memory" # with which UCX's own ud_verbs tries for ever to open
(
    ulimit -S -l 64
    SOFTHCA_MEMLOCK=enforce unusable_by_ucp "softhca0:1 cannot be given buffers: .*ulimit -l"
    exit 0
) || not_ok "to the end"
section "iWARP"
SOFTHCA_PROFILE=iwarp unusable "softhca0 speaks iWARP"

section "one of two ports is down"
export SOFTHCA_FAULTS="softhca1 down 600000 at start" SOFTHCA_DEVICES=2
check "by the other port" perftest_pair "$work/pair" 60 -t tag_lat -n 10
says "ucx_perftest" 0 "$work"/pair.*

section "MPI, the port is down"
export SOFTHCA_FAULTS="down 600000 at start" SOFTHCA_DEVICES=1 expected="softhca0:1 is down"
for mpi in "${mpis[@]}"; do
    check "$mpi does not run without a transport" fails calls "$mpi" 2 host 16 MPI_Send
    # The first that fails may have mpirun end the other before it says so, too.
    says "$mpi, one of two ranks or both" "$([[ $(grep -c "$expected" "$log") -eq 1 ]] && echo 1 || echo 2)" "$log"
done
done_testing
