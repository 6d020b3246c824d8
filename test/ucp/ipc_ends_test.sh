#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Memory that is freed and allocated again, and peers that die, with CUDA IPC.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/ipc.sh
. "$top_srcdir/test/ucp/ipc.sh"

ipc_ends
done_testing
