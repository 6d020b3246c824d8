#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Where protocols v1 go over to messages without a copy, between 4 and 8 KiB, and to a rendezvous: after one
# fragment in a process with GPUs, and as far as UCX's own transports without.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

command -v ucx_info >/dev/null || skip_all "no ucx_info (package ucx-utils)"
export UCX_PROTO_ENABLE=n

# threshold PROTOCOL [VARIABLE=VALUE]...: for tagged messages.
threshold() {
    protocol=$1
    shift
    env LD_PRELOAD="$runtime${emulated_hca:+$emulated_hca:}$module" "$@" ucx_info -e -u t 2>/dev/null |
        sed -n "s,.* tag_send: .*\.\.\([0-9]*\)\.\.<$protocol>.*,\1,p"
}

zcopy=$(threshold egr/zcopy)
note "without a copy from $zcopy bytes on"
check "without a copy from more than 4 KiB on" [ "${zcopy:-0}" -gt 4096 ]
check "and from less than 8 KiB on" [ "${zcopy:-0}" -lt 8192 ]
with=$(threshold rndv) without=$(threshold rndv SOFTCUDA_DEVICES=0)
note "rendezvous from $with bytes on with GPUs, from $without on without"
expect "rendezvous after one fragment with GPUs" 8256 "$with"
check "without GPUs as UCP makes of the port alone" [ "${without:-0}" -gt 16384 ]
done_testing
