# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Stock programs over libmlx5 on softmlx5, on a fabric of their own. Sourced by tests.
#
# They poll, and libmlx5 gives no processor away meanwhile: where others use the machine a message takes
# as long as it takes the processes to take turns. So there are few messages, unless GDR_TEST_EXTENT=all.
: "${top_builddir:?}"
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"
# shellcheck source=test/server.sh
. "$top_srcdir/test/server.sh"

softmlx5=$top_builddir/src/emu/softmlx5/.libs/libsoftmlx5.so
[ -e "$softmlx5" ] || skip_all "built without softmlx5: no infiniband/mlx5dv.h"
ldconfig -p 2>/dev/null | grep -q 'libmlx5\.so\.1' || skip_all "no libmlx5 (package ibverbs-providers)"
# shellcheck source=test/environment.sh
. "$top_srcdir/test/environment.sh"
mlx5=$runtime$softmlx5
# shellcheck disable=SC2034 # for the tests
softhca=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so
export SOFTHCA_FABRIC="softmlx5_$$"
if extended; then messages=1000; else messages=20; fi

# What processes of this test leave in shared memory: fabrics, and directories of sysfs that none uses.
left() {
    ls -d /dev/shm/softhca-*-"$SOFTHCA_FABRIC".* 2>/dev/null
    for directory in /dev/shm/softmlx5-"$(id -u)-$SOFTHCA_FABRIC"-*; do
        [ ! -d "$directory" ] || ! flock -n -x "$directory" true || echo "$directory"
    done
}

# said NAME STATUS...: one case: all statuses are 0.
said() {
    name=$1
    shift
    case "$*" in
    *[!0\ ]*)
        tail -n 20 "$work/server" "$work/client" >"$work/said"
        not_ok "$name" "$work/said"
        ;;
    *) ok "$name" ;;
    esac
}

# pair NAME SERVER_PRELOAD CLIENT_PRELOAD SERVER_COMMAND CLIENT_COMMAND: in both commands PORT is the port. The client's
# output is left in $work/client, the server's in $work/server.
pair() {
    next_port
    preload=$2
    # shellcheck disable=SC2046,SC2086 # words
    serve timeout 120 $(echo "$4" | sed "s/PORT/$port/")
    # shellcheck disable=SC2046,SC2086
    env LD_PRELOAD="$3" timeout 120 $(echo "$5" | sed "s/PORT/$port/") >"$work/client" 2>&1
    client_status=$?
    [ $client_status = 0 ] || kill "$server" 2>/dev/null
    wait "$server"
    said "$1" $client_status $?
}

# both NAME COMMAND [CLIENT_ARGUMENTS]: both sides on softmlx5.
both() { pair "$1" "$mlx5" "$mlx5" "$2" "$2 localhost ${3-}"; }
