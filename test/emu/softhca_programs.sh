# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Stock programs on softhca, as they come from the distribution: libibverbs' examples, perftest, and
# UCX with its own rc_verbs and ud_verbs on host memory. On InfiniBand and on Ethernet. Sourced by
# those who run them, once or many times.
: "${top_builddir:?}"
# shellcheck source=test/lib.sh
. "${top_srcdir:?}/test/lib.sh"
# shellcheck source=test/server.sh
. "${top_srcdir:?}/test/server.sh"

for program in ibv_devinfo ibv_rc_pingpong ucx_perftest; do
    command -v $program >/dev/null || skip_all "no $program (packages ibverbs-utils, ucx-utils)"
done
# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"
preload=$runtime$top_builddir/src/emu/softhca/.libs/libsofthca.so
export SOFTHCA_FABRIC="programs_$$"

# Runs a server and a client of the same program; the port is put in for PORT.
pair() { # NAME SERVER_COMMAND CLIENT_ARGUMENTS
    next_port
    server_command=$(echo "$2" | sed "s/PORT/$port/")
    serve timeout 60 $server_command
    env LD_PRELOAD="$preload" timeout 60 $server_command $3 >"$work/client" 2>&1
    client_status=$?
    [ $client_status = 0 ] || kill $server 2>/dev/null
    wait $server
    status=$client_status$?
    left=$(ls /dev/shm/softhca-*-"$SOFTHCA_FABRIC".* 2>/dev/null)
    if [ $status = 00 ] && [ -z "$left" ]; then
        ok "$1"
    else
        tail -n 20 "$work/server" "$work/client" >"$work/said"
        not_ok "$1" "$work/said"
        note "left behind: $left"
        rm -f $left
    fi
}

ucx() { # TLS ARGUMENTS...
    tls=$1
    shift
    UCX_TLS=$tls
    export UCX_TLS
    pair "$SOFTHCA_LINK_LAYER ucx_perftest UCX_TLS=$tls $*" "ucx_perftest -p PORT" "localhost -w 100 $*"
    unset UCX_TLS
}

run_programs() {
    for layer in infiniband ethernet; do
        export SOFTHCA_LINK_LAYER=$layer
        if LD_PRELOAD=$preload timeout 20 ibv_devinfo -v >"$work/devinfo" 2>&1 &&
            grep -q PORT_ACTIVE "$work/devinfo" &&
            grep -qi "link_layer:.*$layer" "$work/devinfo"; then
            ok "$layer ibv_devinfo"
        else
            not_ok "$layer ibv_devinfo" "$work/devinfo"
        fi
        for mode in rc ud srq; do
            for run in 1 $(! extended || echo 2); do
                for events in "" -e; do
                    pair "$layer ibv_${mode}_pingpong $events $run" \
                        "ibv_${mode}_pingpong -p PORT -g 0 -n 500 $events" localhost
                done
            done
        done
        ucx rc_verbs -t am_lat -x rc_verbs -d softhca0:1 -n 10000
        ucx rc_verbs -t put_lat -x rc_verbs -d softhca0:1 -n 10000
        ucx rc_verbs -t am_bw -D bcopy -s 4096 -x rc_verbs -d softhca0:1 -n 10000
        ucx ud_verbs -t am_lat -x ud_verbs -d softhca0:1 -n 10000
        for tls in rc_verbs,ud_verbs,self ud_verbs,self; do
            ucx $tls -t tag_lat -n 10000
            ucx $tls -t tag_bw -s 4096 -n 10000
            ucx $tls -t tag_bw -s 1048576 -n 100
        done
        ucx rc_verbs,ud_verbs,self -t ucp_put_lat -n 10000
        ucx rc_verbs,ud_verbs,self -t ucp_get -s 65536 -n 2000
        ucx rc_verbs,ud_verbs,self -t ucp_fadd -n 5000
        ucx rc_verbs,ud_verbs,self -t tag_lat -E sleep -n 1000
        if command -v ib_send_lat >/dev/null; then
            for test in "ib_send_lat" "ib_send_lat -e" "ib_send_bw -e" "ib_write_lat" "ib_write_bw" \
                "ib_read_lat" "ib_read_bw" "ib_read_bw -e" "ib_atomic_lat" "ib_atomic_bw" \
                "ib_send_bw -r 64 --use-srq" "ib_send_lat -c UD" "ib_send_lat -c UD -e" \
                "ib_send_bw -q 4" "ib_write_bw -q 4"; do
                for post in "" $(! extended || echo --use_old_post_send); do
                    pair "$layer $test $post" "$test -p PORT -d softhca0 -x 0 -n 500 -F $post" \
                        localhost
                done
            done
        fi
    done
}
