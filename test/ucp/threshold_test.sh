#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Where protocols v1 go over to a rendezvous: after one fragment in a process with GPUs, and as far as UCX's
# own transports without.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

command -v ucx_info >/dev/null || {
    echo "no ucx_info (package ucx-utils)"
    exit 77
}
export UCX_PROTO_ENABLE=n

# threshold [VARIABLE=VALUE]...: of rendezvous, for tagged messages.
threshold() {
    env LD_PRELOAD="$runtime${softhca:+$softhca:}$module" "$@" ucx_info -e -u t 2>/dev/null |
        sed -n 's/.* tag_send: .*\.\.\([0-9]*\)\.\.<rndv>.*/\1/p'
}

with=$(threshold) without=$(threshold SOFTCUDA_DEVICES=0)
echo "rendezvous from $with bytes on with GPUs, from $without on without"
[ "$with" = 8256 ] || {
    echo "FAILED: with GPUs it is not one fragment"
    failed=1
}
[ "${without:-0}" -gt 16384 ] || {
    echo "FAILED: without GPUs it is not what UCP makes of the port alone"
    failed=1
}
exit $failed
