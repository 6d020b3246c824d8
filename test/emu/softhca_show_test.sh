#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr hca": two stock programs at work, one killed, both killed, swept; and that looking changes
# nothing.
set -u
: "${top_builddir:?}"
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"

command -v ibv_rc_pingpong >/dev/null || skip_all "no ibv_rc_pingpong (package ibverbs-utils)"
# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
# shellcheck source=test/server.sh
. "$top_srcdir/test/server.sh"
preload=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so
export SOFTHCA_FABRIC="show_$$" SOFTHCA_BANDWIDTH_GBPS=100
next_port
server=''
client=''
at_exit 'kill -9 $server $client 2>/dev/null'

show() { "$top_builddir/src/tools/ucx-gdr" hca >"$work/out" 2>"$work/err"; }

# shown NAME LINE: it is there.
shown() {
    if grep -Eq "$2" "$work/out"; then
        ok "$1"
    else
        not_ok "$1" "$work/out" "$work/err"
        note "not there: $2"
        done_testing
    fi
}

# await NAME LINE: looks until it is there.
await() {
    tries=0
    until show && grep -Eq "$2" "$work/out" || [ $tries = 1000 ]; do
        tries=$((tries + 1))
    done
    shown "$@"
}

check "no success without a fabric" fails show
expect "but one clear line" 1 "$(wc -l <"$work/err")"
check "which says so" grep -q 'no fabric' "$work/err"
check "and no output" [ ! -s "$work/out" ]

pingpong="ibv_rc_pingpong -p $port -g 0 -n 1000000000"
LD_PRELOAD=$preload $pingpong >"$work/server" 2>&1 &
server=$!
await "a queue pair that is not connected" "^ +qp [0-9]+ port softhca0/1 type RC state INIT sq 0/1 rq 500/500$"
shown "the port" "^port softhca0/1 state ACTIVE link_layer InfiniBand lid 1 gid fe80::[0-9a-f:]+ bandwidth 100 Gb/s$"
shown "the server" "^process $server command ibv_rc_pingpong alive$"
LD_PRELOAD=$preload $pingpong localhost >"$work/client" 2>&1 &
client=$!
await "the server's queue pair, connected to the client" "qp [0-9]+ port softhca0/1 type RC state RTS peer [0-9]+ \(pid $client\)"
await "counters" "counters sends [1-9][0-9]* writes 0 reads 0 atomics 0 bytes [1-9]"
shown "the client's, connected to the server" "qp [0-9]+ port softhca0/1 type RC state RTS peer [0-9]+ \(pid $server\)"

# A killed process is seen dead, and its peer's queue pair alone.
kill -9 $client
wait $client 2>/dev/null
dead=$client client=''
show
shown "a killed process is dead" "^process $dead command \? dead$"
shown "its peer has nobody" "peer [0-9]+ \(gone\)"
shown "the server is alive" "^process $server command ibv_rc_pingpong alive$"
kill -9 $server
wait $server 2>/dev/null
server=''

# What is left is shown as it is, for as long as one likes, and swept by whoever opens a device next.
file=$(ls /dev/shm/softhca-*-"$SOFTHCA_FABRIC".*)
before=$(stat -c '%i %s %b %Y' "$file")
check "the leftovers are shown" show
check "and once more" show
expect "looking changes nothing" "$before" "$(stat -c '%i %s %b %Y' "$file")"
expect "two dead processes" 2 "$(grep -c ' dead$' "$work/out")"
check "ibv_devinfo" env LD_PRELOAD="$preload" ibv_devinfo >"$work/devinfo" 2>&1
check "no success after the fabric is gone" fails show
check "nothing is left" [ ! -e "$file" ]
done_testing
