#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# CUDA IPC on the machine's GPUs, with the emulated HCA: ipc_test, fork_test, and transfers on one GPU and, where they are there, on
# two. IPC_TESTS: which of ipc_test's tests (a filter of GoogleTest's).
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"
# shellcheck source=test/gpu.sh
. "$top_srcdir/test/gpu.sh"

# The classes alone: without an HCA and without the module.
(
    programs=$top_builddir/test/uct/.libs emulated_hca='' module=''
    each ipc_test "${IPC_TESTS:-*}"
    each fork_test '*'
    exit 0
) || not_ok "the classes alone: to the end"

export UCX_GDR_IPC_BANDWIDTH=400g # whatever joins them: else UCP may send part of a message over the HCA
section "one GPU"
(
    CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
    export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES%%,*}"
    ipc_messages
    ipc_kinds
    ipc_openings
    ipc_ends
    exit 0
) || not_ok "to the end"
if [ "$(ls -d /dev/nvidia[0-9]* 2>/dev/null | wc -l)" -gt 1 ]; then
    section "several GPUs"
    ipc_messages
    ipc_kinds
    ipc_openings
    ipc_ends
else
    section ""
    skip_case "several GPUs" "there is one"
fi
done_testing
