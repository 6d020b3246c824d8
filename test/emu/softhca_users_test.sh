#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Two users of one machine, and two fabrics of one user, at work side by side: none sees another's
# processes, and none reaches another's queue pairs, although their numbers are the same.
set -u
# shellcheck source=test/emu/softhca_programs.sh
. "${top_srcdir:?}/test/emu/softhca_programs.sh"
: "${work:?}" "${preload:?}" "${top_builddir:?}"

other_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
[ "$(id -u)" = 0 ] && $other_user true 2>/dev/null || skip_all "to run programs as another user takes root and setpriv (package util-linux)"
$other_user test -r "$top_builddir/src/emu/softhca/.libs/libsofthca.so" || skip_all "another user cannot read $top_builddir"
other_fabric="env SOFTHCA_FABRIC=$SOFTHCA_FABRIC-2"
endless="ibv_rc_pingpong -g 0 -n 1000000000"
started=
at_exit 'kill $started 2>/dev/null' # timeout hands it on

# start HOW COMMAND...: in the background, until it listens.
start() {
    how=$1
    shift
    next_port
    serve $how timeout 60 "$@" -p $port
    started="$started $server"
}

# processes HOW: how many of them this user sees in this fabric.
processes() { $1 "$top_builddir/src/tools/ucx-gdr" hca 2>/dev/null | grep -c '^process .* alive$'; }

# shows NAME CONDITION...
shows() {
    what=$1
    shift
    if "$@"; then ok "$what"; else not_ok "$what" "$work/server" "$work/client"; fi
}

: >"$work/client"
for how in env "$other_user" "$other_fabric"; do
    start "$how" $endless
    env LD_PRELOAD="$preload" $how timeout 60 $endless -p $port localhost >"$work/client" 2>&1 &
    started="$started $!"
done
sees_two() {
    for _ in $(seq 100); do
        [ "$(processes "$1")" != 2 ] || return 0
        sleep 0.1
    done
    return 1
}
shows "one user sees his two processes" sees_two env
shows "another user sees his" sees_two "$other_user"
shows "another fabric has its own" sees_two "$other_fabric"

# unreachable HOW: a client that belongs elsewhere gets an error in good time.
unreachable() {
    start env ibv_rc_pingpong -g 0 -n 100
    env LD_PRELOAD="$preload" $1 timeout 30 ibv_rc_pingpong -g 0 -n 100 -p $port localhost >"$work/client" 2>&1
    status=$?
    kill $server
    [ $status = 1 ] && grep -q 'transport retry counter exceeded' "$work/client"
}
shows "no connection to another user" unreachable "$other_user"
shows "no connection to another fabric" unreachable "$other_fabric"

# A file that somebody else has put in the fabric's place. Not where the kernel refuses that by itself, in a directory
# that everybody may write to and that is sticky.
as_planted() {
    next_port
    unshare --mount --propagation private sh -c '
        mount -t tmpfs -o mode=777 tmpfs /dev/shm || exit 77
        env LD_PRELOAD="$1" ibv_rc_pingpong -g 0 -p "$2" &
        for _ in $(seq 100); do
            name=$(ls /dev/shm | grep ^softhca-) && break
            sleep 0.05
        done
        kill -KILL $!
        rm "/dev/shm/$name"
        '"$other_user"' sh -c "umask 0; : >/dev/shm/$name"
        timeout 20 env LD_PRELOAD="$1" ibv_devinfo -d softhca0' planted "$preload" $port >"$work/client" 2>&1
    status=$?
    [ $status = 77 ] || { [ $status != 0 ] && grep -q "belongs to another user" "$work/client"; }
}
shows "another user's file is not taken for the fabric's" as_planted

# What a process leaves that is killed, the next one of that user takes away, whatever fabric it is in.
left() { find /dev/shm -name "softhca-$(id -u)-$SOFTHCA_FABRIC-killed*" | wc -l; }
victims=
for number in 1 2; do
    start "env SOFTHCA_FABRIC=$SOFTHCA_FABRIC-killed$number" $endless
    victims="$victims $(ps -o pid= --ppid $server)"
done
kill -KILL $victims
shows "the killed have left something" [ "$(left)" = 2 ]
env LD_PRELOAD="$preload" SOFTHCA_FABRIC="$SOFTHCA_FABRIC-next" ibv_devinfo >/dev/null 2>&1
shows "and it is gone" [ "$(left)" = 0 ]
shows "but what is in use stays" sees_two env
done_testing
