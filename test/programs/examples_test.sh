#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCX's own example programs, of the release in use, with all their options: over gdr they say what they
# say over UCX's own transports, and end as they do there; with GPU memory as with host memory. Where there
# is no GPU, and where there is no driver, too.
set -u

# shellcheck source=test/programs/environment.sh
. "$top_srcdir/test/programs/environment.sh"

build_examples || skip_all "$(cat "$work/why")"

# ---- one run of a server and a client

# start FILE PROGRAM [OPTION]...: over $transports, "TRANSPORT@DEVICE" for UCT; what it says goes to FILE, each
# line at once, since a server is killed.
start() {
    local file=$1 program=$2 uct=() tls=$transports
    shift 2
    [[ $program != uct_* ]] || uct=(-t "${tls%@*}" -d "${tls#*@}") tls=all
    UCX_TLS=$tls LD_PRELOAD=$runtime$emulated_hca$with_module exec \
        timeout -k 2 60 stdbuf -oL -eL "$work/$program" "${uct[@]}" "$@" >"$file" 2>&1 </dev/null
}

# server_says LINE TIMES: waits until the server has said so often what begins so, or has ended.
server_says() {
    local tries
    for ((tries = 0; tries < 1000; tries++)); do
        [[ $(grep -c "^$1" "$work/server") -lt $2 ]] || return 0
        kill -0 "$server" || return
        sleep 0.02
    done
}

# What differs from run to run or from transport to transport and is no outcome: ports, processes and
# threads, addresses and limits; whether an operation was complete at once; which side closes first;
# durations that UCX computes from its clock; log lines' heads.
normalized() {
    sed -E -e 's/^\[[0-9.]+\] \[[^]]*\] +[a-z_]+\.[a-z]+:[0-9]+ +UCX +//' \
        -e 's/0x[0-9a-f]+/0x/g; s/fd=[0-9]+/fd/; s/port =? ?[0-9]+/port/; s/pid = [0-9]+/pid/' \
        -e 's/(client at address .*|dest_addr=.*):[0-9]+/\1/; s/(local address length:|, length|supported:) [0-9]+/\1/' \
        -e 's|^Using .*/.*|Using the transport|; s|[(][^ ]*/[^ ]*[)]|(it)|; s|^(UCX_TLS)=.*|\1|; s/^(UCX_[A-Z_]+)=[0-9.]+us$/\1/' \
        -e '/send handler called .* status 0 /d; /^error handling callback .* status -25 /d; /^failed to close ep /d' \
        -e "$drop" "$1"
}

# outcome PROGRAM [OPTION]...: what both sides say, and how they end, in the file of that name in $work. An
# option "@TEXT" is the server's alone, "%TEXT" the client's.
outcome() {
    local program=$1 of_server=() of_client=() option port number previous='' iterations=1 receipt=''
    shift
    [[ $program != ucp_client_server || "$* " == *"-c tag "* ]] || receipt=$work/receipt
    for option in "$@"; do
        [[ $previous != -i ]] || iterations=$option
        previous=$option
        [[ $option == %* ]] || of_server+=("${option#@}")
        [[ $option == @* ]] || of_client+=("${option#%}")
    done
    port=$(free_port)
    : >"$work/server"
    start "$work/server" "$program" -p "$port" "${of_server[@]}" &
    server=$!
    server_says "Waiting for connection" 1
    : >"$work/client"
    for ((number = 1; number <= clients; number++)); do
        rm -f "$work/receipt"
        EXAMPLE_RECEIPT=$receipt start "$work/one" "$program" -p "$port" "${of_client[@]}" &
        client=$!
        [[ -z $receipt ]] || server_says "Server: iteration #$iterations\$" "$number"
        : >"$work/receipt"
        wait "$client"
        echo "client: status $?" >>"$work/one"
        cat "$work/one" >>"$work/client"
        [[ $program != ucp_client_server ]] || server_says "Waiting for connection" $((number + 1))
    done
    # This one goes on serving.
    [[ $program != ucp_client_server ]] || kill "$server"
    wait "$server"
    echo "server: status $?" >>"$work/server"
    { normalized "$work/server" && normalized "$work/client"; } >"$work/outcome"
} 2>/dev/null # the shell's remarks about processes that died

# ---- a program with options: over UCX's own transports, then over gdr

# alike PROGRAM [OPTION]...: over the transports in the array "own" on host memory, then over "gdr", where there is
# GPU memory with that too: each outcome has to be one of UCX's own. Fails where there is none. On a machine in each
# of "states".
alike() {
    local example=("$@") state memory transports with_module
    rm -f "$work"/expected.*
    learn || return
    compgen -G "$work/expected.*" >/dev/null || { skip_case "$*" "it fails over ${own[*]}" && return 1; }
    for state in "${states[@]}"; do compare "$* ($state)" "$state"; done
    for memory in $memories; do compare "$* -m $memory" emulated -m "$memory"; done
}

# The same in all states of the machine.
check_states() {
    local states=("${gpu_states[@]}")
    extended || states=("${gpu_states[0]}") # unchanged_test.sh has some in the others
    alike "$@"
}

# Adds the outcomes over UCX's own transports to $work/expected.*, but for those where the example itself fails. Fails
# where it hangs, as that of 1.14 does with active messages, and where it crashes, as those of 1.15 and 1.18 do with
# IPv6: what becomes of a program that damages its heap is chance, over any transport.
learn() {
    gpus emulated
    with_module=''
    for transports in "${own[@]}"; do
        outcome "${example[@]}"
        ! grep -q 'status 124$' "$work/outcome" ||
            { skip_case "${example[*]}" "it hangs over $transports" && return 1; }
        ! grep -qE 'status (134|139)$' "$work/outcome" ||
            { skip_case "${example[*]}" "it crashes over $transports" && return 1; }
        grep -qE "$failures" "$work/outcome" || is_expected || mv "$work/outcome" "$(mktemp "$work/expected.XXXXXX")"
    done
}

is_expected() {
    local expected
    for expected in "$work"/expected.*; do ! cmp -s "$expected" "$work/outcome" || return 0; done
    return 1
}

# compare NAME GPUS [OPTION]...: UCX's own outcomes may differ from run to run. Before one of gdr's that is none of
# them is a failure, UCX's own transports are asked ten times more.
compare() {
    local name=$1 state=$2 tries
    shift 2
    gpus "$state"
    transports=$gdr with_module=:$module
    outcome "${example[@]}" "$@"
    cp "$work/outcome" "$work/gdr"
    for ((tries = 0; tries <= 10; tries++)); do
        ! is_expected || { ok "$name" && return; }
        learn || return
        cp "$work/gdr" "$work/outcome"
    done
    diff -a "$(compgen -G "$work/expected.*" | head -n 1)" "$work/gdr" >"$work/differences"
    not_ok "$name" "$work/differences"
    note "< one of those over ${own[*]}, > over $gdr"
}

failures='failed on FIN message|^Failed to find supported device' # of the example itself
drop="" clients=1 memories="cuda cuda-managed" states=(emulated)

# ---- ucp_client_server

of_lists=$memories
if protocols_v1; then
    skip_case "lists of segments of CUDA memory" "the example does not name their memory, which protocols v1 need"
    of_lists=cuda-managed
fi
own=(tcp "sm,tcp" ${verbs:+"rc_verbs,tcp"}) gdr=gdr,tcp
for call in stream tag am; do
    check_states ucp_client_server -c $call %-a %127.0.0.1 || continue
    alike ucp_client_server -c $call %-a %127.0.0.1 -s 1
    alike ucp_client_server -c $call %-a %127.0.0.1 -s 65536
    check_states ucp_client_server -c $call %-a %127.0.0.1 -s 4194304
    memories=$of_lists alike ucp_client_server -c $call %-a %127.0.0.1 -v 3
    memories=$of_lists alike ucp_client_server -c $call %-a %127.0.0.1 -v 7 -s 1000
    memories=$of_lists alike ucp_client_server -c $call %-a %127.0.0.1 -v 3 -s 100000
    alike ucp_client_server -c $call %-a %::1 -6
    clients=3 alike ucp_client_server -c $call %-a %127.0.0.1 -s 10000
    # The example notes the last active message only: of several that come at once it waits for the others for ever.
    [[ $call != am ]] || continue
    alike ucp_client_server -c $call %-a %127.0.0.1 -s 4096 -i 3
    alike ucp_client_server -c $call %-a %127.0.0.1 @-l @127.0.0.1 -i 301
done

# ---- ucp_hello_world

own=(tcp "sm,self" ${verbs:+"rc_verbs,ud_verbs"}) gdr=gdr
for way in -b -w -f; do
    check_states ucp_hello_world $way %-n %127.0.0.1
    alike ucp_hello_world $way %-n %127.0.0.1 -s 1
    alike ucp_hello_world $way %-n %127.0.0.1 -s 65536
    alike ucp_hello_world $way %-n %127.0.0.1 -s 4194304
done
alike ucp_hello_world -6 %-n %::1
# What gdr changes where there are GPUs, as docs/explanation/loading.md says.
drop='/^UCX_RCACHE_ENABLE=/d' check_states ucp_hello_world -c %-n %127.0.0.1
# sm has no error handling, and rc_verbs takes half a minute to find out. When and with which status a peer turns out
# to be dead, and whether the transport still had the message that nobody receives any more, is its own matter: here
# both sides have to end, and without a signal that the example did not ask for.
own=(tcp)
export UCX_KEEPALIVE_INTERVAL=2s UCX_GDR_RC_TIMEOUT=200ms # else a peer's death is found out after 28 s
for failure in send recv keepalive; do
    drop='/^(ERROR|WARN|DIAG)/d; / status -[0-9]+ /d; /(finish|unable) to send UCX data message/d'
    drop+='; /^Waiting for client is terminated/d; s/^(server: status) (0|255)$/\1/'
    memories=cuda alike ucp_hello_world -e $failure %-n %127.0.0.1
done
unset UCX_KEEPALIVE_INTERVAL UCX_GDR_RC_TIMEOUT
drop=""

# ---- uct_hello_world

own=(tcp@lo posix@memory ${verbs:+rc_verbs@${hca_name}0:1}) gdr=gdr@${hca_name}0:1
for size in 8 16 64 1000000000; do
    memories="" check_states uct_hello_world -i %-n %127.0.0.1 -s $size
done
for size in 1 16 1000 1000000; do
    alike uct_hello_world -b %-n %127.0.0.1 -s $size
    memories=cuda alike uct_hello_world -z %-n %127.0.0.1 -s $size # no HCA registers managed memory
done
done_testing
