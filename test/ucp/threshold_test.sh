#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Where protocols v1 go over to messages without a copy, between 4 and 8 KiB, and to a rendezvous: after one
# fragment in a process with GPUs, and as far as UCX's own transports without.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

command -v ucx_info >/dev/null || {
    echo "no ucx_info (package ucx-utils)"
    exit 77
}
export UCX_PROTO_ENABLE=n

# threshold PROTOCOL [VARIABLE=VALUE]...: for tagged messages.
threshold() {
    protocol=$1
    shift
    env LD_PRELOAD="$runtime${softhca:+$softhca:}$module" "$@" ucx_info -e -u t 2>/dev/null |
        sed -n "s,.* tag_send: .*\.\.\([0-9]*\)\.\.<$protocol>.*,\1,p"
}

zcopy=$(threshold egr/zcopy)
echo "without a copy from $zcopy bytes on"
[ "${zcopy:-0}" -gt 4096 ] && [ "$zcopy" -lt 8192 ] || {
    echo "FAILED: it is not between 4 and 8 KiB"
    failed=1
}
with=$(threshold rndv) without=$(threshold rndv SOFTCUDA_DEVICES=0)
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
