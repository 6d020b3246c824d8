#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr hca": two stock programs at work, one killed, both killed, swept; and that looking changes
# nothing.
set -u
: "${top_builddir:?}"

command -v ibv_rc_pingpong >/dev/null || {
    echo "skipped: no ibv_rc_pingpong (package ibverbs-utils)"
    exit 77
}
# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
# shellcheck source=test/server.sh
. "$top_srcdir/test/server.sh"
preload=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so
export SOFTHCA_FABRIC="show_$$" SOFTHCA_BANDWIDTH_GBPS=100
next_port
work=$(mktemp -d) || exit 99
server=''
client=''
trap 'kill -9 $server $client 2>/dev/null; rm -rf "$work"' EXIT

show() { "$top_builddir/src/tools/ucx-gdr" hca >"$work/out" 2>"$work/err"; }

fail() {
    echo "FAILED: $*"
    cat "$work/out" "$work/err"
    exit 1
}

# Looks until it finds a line that matches.
await() {
    tries=0
    until show && grep -Eq "$1" "$work/out"; do
        tries=$((tries + 1))
        [ $tries -lt 1000 ] || fail "never saw: $1"
    done
}

expect() { grep -Eq "$1" "$work/out" || fail "not there: $1"; }

show && fail "success without a fabric"
[ "$(wc -l <"$work/err")" = 1 ] && grep -q 'no fabric' "$work/err" || fail "not one clear line"
[ ! -s "$work/out" ] || fail "output without a fabric"

pingpong="ibv_rc_pingpong -p $port -g 0 -n 1000000000"
LD_PRELOAD=$preload $pingpong >"$work/server" 2>&1 &
server=$!
await "^ +qp [0-9]+ port softhca0/1 type RC state INIT sq 0/1 rq 500/500$"
expect "^port softhca0/1 state ACTIVE link_layer InfiniBand lid 1 gid fe80::[0-9a-f:]+ bandwidth 100 Gb/s$"
expect "^process $server command ibv_rc_pingpong alive$"
LD_PRELOAD=$preload $pingpong localhost >"$work/client" 2>&1 &
client=$!
await "qp [0-9]+ port softhca0/1 type RC state RTS peer [0-9]+ \(pid $client\)"
await "counters sends [1-9][0-9]* writes 0 reads 0 atomics 0 bytes [1-9]"
expect "qp [0-9]+ port softhca0/1 type RC state RTS peer [0-9]+ \(pid $server\)"

# A killed process is seen dead, and its peer's queue pair alone.
kill -9 $client
wait $client 2>/dev/null
dead=$client client=''
show
expect "^process $dead command \? dead$"
expect "peer [0-9]+ \(gone\)"
expect "^process $server command ibv_rc_pingpong alive$"
kill -9 $server
wait $server 2>/dev/null
server=''

# What is left is shown as it is, for as long as one likes, and swept by whoever opens a device next.
file=$(ls /dev/shm/softhca-*-"$SOFTHCA_FABRIC".*)
before=$(stat -c '%i %s %b %Y' "$file")
show && show || fail "the leftovers are not shown"
[ "$before" = "$(stat -c '%i %s %b %Y' "$file")" ] || fail "looking changed $file"
[ "$(grep -c ' dead$' "$work/out")" = 2 ] || fail "not two dead processes"
LD_PRELOAD=$preload ibv_devinfo >"$work/devinfo" 2>&1 || fail "ibv_devinfo"
show && fail "success after the fabric is gone"
[ ! -e "$file" ] || fail "$file is left"
echo ok
