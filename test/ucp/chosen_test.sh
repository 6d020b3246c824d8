#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX's variables that the program gives a context itself, by ucp_config_modify() or under a prefix of
# its own: they hold for that context, whatever the environment says.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

sizes=0,1,8,127,128,4097,65536
kinds=host:cuda,cuda:host,cuda:cuda,managed:host,managed:managed # what both protocols can put and get

for protocols in y n; do
    [ $protocols = y ] || [ "$(ucx_minor)" -lt 22 ] || continue # its protocols v1 have no put and get
    section "PROTO_ENABLE=$protocols by the program"
    UCPTEST_CONFIG=PROTO_ENABLE=$protocols run ucp_transfer --ops put,get --kinds $kinds --sizes $sizes
    section "PROTO_ENABLE=$protocols under a prefix"
    APP_UCX_PROTO_ENABLE=$protocols APP_UCX_TLS=gdr UCPTEST_PREFIX=APP \
        run ucp_transfer --ops put,get --kinds $kinds --sizes $sizes
    other=$(echo $protocols | tr yn ny)
    section "PROTO_ENABLE=$protocols by the program, $other by the environment"
    UCX_PROTO_ENABLE=$other UCPTEST_CONFIG=PROTO_ENABLE=$protocols run ucp_transfer --ops put,get --kinds $kinds --sizes $sizes
done

# UCP's registration cache, which the user has switched off, in a context that has it nevertheless.
section "RCACHE_ENABLE=y by the program"
UCX_RCACHE_ENABLE=n UCPTEST_CONFIG=RCACHE_ENABLE=y run ucp_stale

# UCX is prepared for GPU memory by the environment's UCX_TLS: another in the context is too late, and said so.
warning="the program gives this context UCX_TLS=gdr"
for tls in sysv gdr; do
    section "UCX_TLS=$tls"
    UCX_TLS=$tls UCPTEST_CONFIG=TLS=gdr run ucp_transfer --ops tag --kinds host:host --sizes 8 >"$work/log" 2>&1
    expect "is there a warning" "$([ $tls = gdr ] || echo yes)" "$(grep -q "$warning" "$work/log" && echo yes)"
done
done_testing
