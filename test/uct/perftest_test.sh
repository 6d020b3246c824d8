#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Stock ucx_perftest with CUDA memory over gdr, at UCT's level, where it allocates by the module's own allocators
# (at UCP's level UCP allocates): over the HCA, and by the copy interface, which reaches its own process alone.
# Emulated GPU and HCA.
set -u
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"

command -v ucx_perftest >/dev/null || skip_all "no ucx_perftest (package ucx-utils)"
# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"

# shellcheck source=test/ucx_version.sh
. "$top_srcdir/test/ucx_version.sh"
# shellcheck source=test/server.sh
. "$top_srcdir/test/server.sh"

preload=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so:$top_builddir/src/preload/.libs/libuct_gdr.so.0
export UCX_GDR_IPC=n # the HCA is what this is about
export LD_LIBRARY_PATH="$top_builddir/src/emu/softcuda/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export SOFTHCA_FABRIC="perftest_$$"

# Debian 13's is an MPI program unless told otherwise.
alone=
if ucx_perftest -h 2>&1 | grep -q 'MPI mode'; then alone="-P 0"; fi
device="-x gdr -d softhca0:1" # from UCX 1.18 on the server asks for it too


# shellcheck disable=SC2086 # alone and device are lists of words
transfer() { # NAME PERFTEST_ARGUMENT...
    name=$1
    shift
    next_port
    serve timeout 120 ucx_perftest $alone $device -p "$port"
    env LD_PRELOAD="$preload" timeout 60 ucx_perftest $alone -p "$port" localhost $device "$@" >"$work/client" 2>&1
    client_status=$?
    [ $client_status = 0 ] || kill $server 2>/dev/null
    wait $server
    server_status=$?
    if [ $client_status = 0 ] && [ $server_status = 0 ] && grep -q '^Final:' "$work/client" &&
        ! grep -q 'ERROR\|WARN' "$work/client" "$work/server"; then
        ok "$name"
    else
        not_ok "$name" "$work/server" "$work/client"
    fi
}

copy() { # NAME PERFTEST_ARGUMENT...
    name=$1
    shift
    # shellcheck disable=SC2086 # alone is a list of words
    if env LD_PRELOAD="$preload" timeout 60 ucx_perftest $alone -l -x gdr -d cuda -n 500 -w 10 "$@" >"$work/client" 2>&1 &&
        grep -q '^Final:' "$work/client" && ! grep -q 'ERROR\|WARN' "$work/client"; then
        ok "$name"
    else
        not_ok "$name" "$work/client"
    fi
}

transfer "put of device memory" -t put_bw -D zcopy -s 65536 -n 500 -w 10 -m cuda
transfer "put of host memory to device memory" -t put_bw -D zcopy -s 4096 -n 500 -w 10 -m host,cuda
transfer "get into device memory" -t get -D zcopy -s 4096 -n 500 -w 10 -m cuda
transfer "ping-pong of device memory" -t put_lat -D zcopy -s 8 -n 500 -w 10 -m cuda

for memory in host,cuda cuda,host cuda; do # perftest has no short get
    copy "copy by put_short, $memory" -t put_bw -D short -s 4096 -m $memory
    copy "copy by put_zcopy, $memory" -t put_bw -D zcopy -s 4096 -m $memory
    copy "copy by get_zcopy, $memory" -t get -D zcopy -s 4096 -m $memory
done

if [ "$(ucx_minor)" -lt 22 ]; then
    skip_case "through UCX_PLUGIN_PATH alone" "UCX 1.22 and later"
else
    module=$top_builddir/src/preload/.libs/libuct_gdr.so.0
    ln -s "$module" "$work/libuct_gdr.so.0"
    ln -s "$module" "$work/libucs_gdr.so.0"
    export UCX_PLUGIN_PATH="$work"
    preload=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so
    transfer "through UCX_PLUGIN_PATH alone" -t put_bw -D zcopy -s 65536 -n 500 -w 10 -m cuda
fi
done_testing
