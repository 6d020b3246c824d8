#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Where no GPU is, the module changes nothing: UCX's settings but for our own, its devices and protocols, what
# programs say and how they end are what they are without it. Loaded by hand, with no driver and with a driver that
# has no GPU, and by "ucx-gdr run".
# shellcheck disable=SC2034 # "with" and "without" are used by name
set -u

# shellcheck source=test/programs/environment.sh
. "$top_srcdir/test/programs/environment.sh"
command -v ucx_info >/dev/null || skip_all "no ucx_info (package ucx-utils)"
unset UCX_HANDLE_ERRORS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any
export TMPDIR=$work
build_examples || skip_case "ucp_hello_world" "$(cat "$work/why")"

# What differs from run to run: heads of log lines, addresses, free memory, what is in "drop"; and what is our own.
drop=""
normalized() {
    sed -E -e 's/^\[[0-9.]+\] \[[^]]*\] +([a-z_]+\.[a-z]+:[0-9]+ +UCX +)?//; s/0x[0-9a-f]+//g' \
        -e 's/(allocate: <=) [0-9]+K/\1/; /^UCX_GDR_/d' -e "$drop" "$1"
}

# same NAME COMMAND...: with "launch" as it is without the module and with it.
same() {
    local name="$state: $1" side launch
    shift
    for side in without with; do
        local -n prefix=$side
        launch=("${prefix[@]}")
        "$@" >"$work/said" 2>&1 </dev/null
        echo "status $?" >>"$work/said"
        normalized "$work/said" >"$work/$side"
    done
    if diff -a "$work/without" "$work/with" >"$work/differences"; then
        ok "$name"
    else
        not_ok "$name" "$work/differences"
        note "< without gdr, > with it"
    fi
}

# ---- programs, one process or two

alone() { timeout -k 5 60 "${launch[@]}" "$@"; }

perftest() {
    local status
    perftest_pair "$work/perftest" 60 "$@" -n 1000
    status=$?
    cat "$work/perftest.client" "$work/perftest.server"
    return $status
}

hello() {
    local port server status
    port=$(free_port)
    timeout -k 5 60 "${launch[@]}" stdbuf -oL "$work/ucp_hello_world" -p "$port" "$@" >"$work/server" 2>&1 &
    server=$!
    until listening "$port" || ! kill -0 $server; do sleep 0.02; done
    alone "$work/ucp_hello_world" -n 127.0.0.1 -p "$port" "$@"
    status=$?
    wait $server || status=$?
    cat "$work/server"
    return $status
}

mpi() {
    timeout -k 5 120 "$(mpirun_of "$1")" -n 2 "${launch[@]}" "$top_builddir/test/mpi/mpi_calls.$1" host 16
}

programs() {
    local mpi
    same "true" alone true
    same "python" alone python3 -c 'print(sum(range(10)))'
    same "a program that fails" alone sh -c 'exit 3'
    same "ucx_info -v" alone ucx_info -v
    same "a setting that does not exist" alone env UCX_NONESUCH=1 ucx_info -v
    local drop='/[0-9]\.[0-9]/d' # figures
    for call in tag_lat tag_bw tag_sync_lat ucp_am_lat stream_bw ucp_put_lat ucp_get ucp_fadd ucp_cswap; do
        same "ucx_perftest -t $call" perftest -t $call
    done
    drop='s/(port =?|pid =|address length:|, length) ?[0-9]+//g; /send handler called .* status 0 /d'
    [[ ! -x $work/ucp_hello_world ]] || same "ucp_hello_world" hello
    drop='/^call: /!d' # ranks tell in any order
    for mpi in openmpi mpich; do
        [[ ${GDR_MPI:-yes} = no ]] || ! mpirun_of $mpi >/dev/null || same "MPI calls, $mpi" mpi $mpi
    done
}

# ---- UCX's settings, and what it chooses

settings() {
    same "settings" alone ucx_info -a -c
}

choices() {
    local features place
    for features in t tarmsw te; do
        for place in self intra inter; do
            same "endpoint, features $features, $place" alone ucx_info -e -u $features -P $place
            same "protocols v2, features $features, $place" \
                alone env UCX_PROTO_ENABLE=y UCX_PROTO_INFO=y ucx_info -e -u $features -P $place
        done
    done
}

# ---- loaded by hand, no HCA either: gdr has nothing to offer

without=(env) with=(env "LD_PRELOAD=$module")
for kind in "${gpu_states[@]:1}"; do
    gpus "$kind"
    state=$kind
    settings
    same "devices and transports" alone ucx_info -d
    choices
    programs
done

# ---- "ucx-gdr run" where there is nothing to run on, which names transports: UCX's own choice as ever

cat >"$work/without_words" <<'END' # the command's own, that there is nothing
#!/bin/bash
set -o pipefail
{ "$GDR_TOOL" run --no-emulation "$@" 2>&1 >&3 | sed '/^ucx-gdr: no usable /d' >&2; } 3>&1
END
chmod +x "$work/without_words"
with=(env "GDR_TOOL=$top_builddir/src/tools/ucx-gdr" "$work/without_words")
state="ucx-gdr run, no GPU and no HCA"
choices

# ---- "ucx-gdr run", on the emulated HCA: UCX's own transports as ever, and all of them together

gpus "without a GPU"
without=(env "LD_PRELOAD=$emulated_hca") with=("$top_builddir/src/tools/ucx-gdr" run "$emulate_hca" --emulate-gpu)
for UCX_TLS in tcp "sm,self" ${verbs:+"rc_verbs,ud_verbs"}; do
    export UCX_TLS
    state="ucx-gdr run, UCX_TLS=$UCX_TLS"
    settings
    choices
done
export UCX_TLS=all
state="ucx-gdr run, UCX_TLS=all"
settings
programs
done_testing
