# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# All that ucp_transfer can do, at few sizes: every operation, kind of memory, layout, way to wait and to
# connect. The same runs on every HCA there is, emulated or the kernel's. Sourced after environment.sh.
# What UCX 1.13 itself cannot do is left out, as in transfer_*_test.sh, which say what it is.

transfer_cases() {
    messages=tag,tag_unexpected,tag_sync,am,am_eager,am_rndv,stream
    atomics=atomic_add,atomic_fadd,atomic_swap,atomic_cswap,atomic_bitwise
    four=host:host,host:cuda,cuda:host,cuda:cuda
    run ucp_transfer --ops $messages --kinds all --sizes 0,1,8,63,4095,4097,65536
    run ucp_transfer --ops put,get --kinds "$(rma_kinds)" --sizes 0,1,8,63,4095,4097,65536
    run ucp_transfer --ops $messages,put,get --kinds $four --sizes 1048576
    run ucp_transfer --ops tag,put,get --kinds cuda:cuda,managed:cuda --sizes 34603008 --window 1
    run ucp_transfer --ops $atomics --kinds $four --window 16
    run ucp_transfer --ops tag,am,stream --kinds $four --layouts iov:iov,contig:iov --sizes 0,8,4097,65536
    protocols_v1 || run ucp_transfer --ops put,get --kinds $four --layouts iov:contig --sizes 65536,1048576
    run ucp_transfer --ops tag --kinds pool:pool,vmm:vmm,segments:segments --sizes 8,65536
    rma=vmm:vmm
    protocols_v1 || rma=$rma,pool:pool,segments:segments # which peermem does not take
    run ucp_transfer --ops put,get --kinds $rma --sizes 8,65536
    run ucp_transfer --ops $messages,put --kinds readonly:host,readonly:cuda --sizes 8,65536
    run ucp_transfer --wakeup --ops $messages,put,get --kinds host:host,cuda:cuda --sizes 8,65536
    run ucp_transfer --peer-errors --ops $messages,put,get --kinds host:host,cuda:cuda --sizes 8,65536
    run ucp_transfer --ranks 5 --ops $messages,put,get,$atomics --kinds host:host,cuda:cuda --sizes 8,65536
    (
        export UCX_TLS=gdr,tcp
        [ -z "${UCPTEST_NET_DEVICES-}" ] || # they connect over TCP
            UCPTEST_NET_DEVICES=$(echo "$UCPTEST_NET_DEVICES" | sed 's/\(;\|$\)/,lo\1/g')
        run ucp_transfer --client-server --ops $messages,put,get --kinds host:host,cuda:cuda --sizes 8,65536
        exit 0
    ) || not_ok "ucp_transfer --client-server: to the end"
    ! protocols_v1 || run_v2 ucp_transfer --ops $messages,put,get --kinds cuda:cuda --sizes 8,4097,65536
}
