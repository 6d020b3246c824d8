#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Something is missing: no CUDA driver, no HCA, neither, our own module, too little locked memory. What is left
# works, and what cannot be is refused with a line that says why, without a crash.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

log=$work/log

# refused EXPECTED PROGRAM [ARGUMENT]...: the program fails, says what is expected, and does not
# crash or hang.
refused() {
    expected=$1
    shift
    name="$* is refused: $(echo "$expected" | sed "s|$alone|ALONE|")"
    program=$1
    shift
    timeout -k 5 300 env LD_PRELOAD="$preload" "$programs/$program" "$@" >"$log" 2>&1
    status=$?
    if [ $status = 0 ] || [ $status -ge 124 ] || ! grep -q "$expected" "$log" ||
        grep -qE 'FAILED.*(crashes|aborts|hangs)' "$log"; then
        not_ok "$name" "$log"
        note "status $status"
    else
        ok "$name"
        note "$(grep -m 1 "$expected" "$log")"
    fi
}
alone=$work/alone # where libuct_gdr.so.0 has no module behind it

hca_of_the_machine() { [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; }
driver_of_the_machine() { ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; }

if driver_of_the_machine; then
    skip_case "no CUDA driver" "this machine has one"
else
    section "no CUDA driver"
    with_driver=$LD_LIBRARY_PATH
    unset LD_LIBRARY_PATH
    run ucp_transfer --ops tag,am,put,get --sizes 8,65536
    if ! hca_of_the_machine; then
        section "no CUDA driver and no HCA"
        preload=$runtime$module
        refused "no HCA" ucp_transfer --ops tag --sizes 8
    fi
    export LD_LIBRARY_PATH="$with_driver"
fi

if hca_of_the_machine; then
    skip_case "no HCA" "this machine has one"
else
    section "no HCA"
    preload=$runtime$module
    refused "no HCA" ucp_transfer --ops tag --kinds cuda:cuda --sizes 8
    section "no HCA, but TCP: device memory is copied"
    emulated_hca=
    operations=tag,am
    if protocols_v1; then # which emulate put and get with the CPU
        UCX_TLS=gdr,tcp timeout -k 5 300 env LD_PRELOAD="$runtime$module" \
            "$programs/ucp_transfer" --ops put --kinds cuda:cuda --sizes 8 >"$log" 2>&1
        check "a CPU that touches GPU memory in protocols v1 is explained" \
            grep -m 1 "the CPU touched GPU memory.* set UCX_PROTO_ENABLE=y" "$log"
    else
        operations=$operations,put,get
    fi
    UCX_TLS=gdr,tcp run ucp_transfer --ops $operations --kinds cuda:cuda --sizes 8,65536

    section "no libibverbs"
    without=$work/without
    mkdir "$without"
    : >"$without/libibverbs.so.1"
    with_verbs=${LD_LIBRARY_PATH-}
    export LD_LIBRARY_PATH="$without:$with_verbs"
    preload=$runtime$module
    refused "no HCA.*: .*libibverbs.so.1: file too short (install libibverbs1" ucp_transfer --ops tag --sizes 8
    section "no libibverbs, but TCP: device memory is copied"
    UCX_TLS=gdr,tcp run ucp_transfer --ops $operations --kinds cuda:cuda --sizes 8,65536
    . "$top_srcdir/test/emulated_hca.sh"
    section "no libibverbs, but the emulated HCA"
    if on_softmlx5; then
        skip_case "a transfer" "softmlx5 is under libibverbs"
    else
        run ucp_transfer --ops tag --kinds cuda:cuda --sizes 8,65536
    fi
    emulated_hca=
    # without_function NAME: a libibverbs that calls it by another name.
    without_function() {
        sed "s/$1/$(echo "$1" | tr v x)/g" "$(${CXX:-c++} -print-file-name=libibverbs.so)" >"$without/libibverbs.so.1"
    }
    section "a libibverbs of before dmabuf"
    without_function ibv_reg_dmabuf_mr
    refused "no HCA.*: libibverbs \(finds\|cannot list\)" ucp_transfer --ops tag --sizes 8
    section "a libibverbs that lacks what is needed"
    without_function ibv_port_state_str
    refused "no HCA.*: libibverbs.so.1 has no ibv_port_state_str of version IBVERBS_1.1" ucp_transfer --ops tag --sizes 8
    export LD_LIBRARY_PATH="$with_verbs"
    . "$top_srcdir/test/emulated_hca.sh"
fi

section "no module behind libuct_gdr.so.0: another transport works"
mkdir "$alone"
cp "$module" "$alone/libuct_gdr.so.0"
preload=$runtime$emulated_hca:$alone/libuct_gdr.so.0
refused "gdr: not used: $alone/ucx-gdr/gdr_module.so is missing" ucp_transfer --ops tag --sizes 8
with_module=$module
module=$alone/libuct_gdr.so.0
UCX_TLS=gdr,tcp run ucp_transfer --ops tag,am,put,get --sizes 8,65536
module=$with_module

preload=$runtime$emulated_hca:$module
export SOFTHCA_MEMLOCK=enforce
section "too little locked memory for a message"
# shellcheck disable=SC3045 # every sh in use has it
ulimit -l 8192
# Others abort then, over their own transports too: protocols v1, and v2 from 1.14 on.
[ "$(ucx_minor)" -ge 14 ] ||
    UCX_PROTO_ENABLE=y refused "bytes cannot be registered: .*ulimit -l" ucp_transfer --ops tag --sizes 34603008
section "64 KiB of locked memory"
# shellcheck disable=SC3045 # every sh in use has it
ulimit -l 64
refused "ulimit -l" ucp_transfer --ops tag --sizes 8
done_testing
