# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the scripts of contrib share, and some tests: steps with one line of progress and a log each, a
# build directory brought up to date, MPIs, perftest. Sourced from the root of the source tree.

# shellcheck disable=SC2034 # used by those who source this
jobs=$(nproc)

# The builds of one source, in several directories, share their objects where there is ccache.
if [[ -z ${CXX-} ]] && command -v ccache >/dev/null && command -v g++ >/dev/null; then
    export CXX="ccache g++" CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
    export CCACHE_SLOPPINESS=pch_defines,time_macros # objects that use a precompiled header, too
fi

fail() { echo "${0##*/}: $*" >&2; exit 1; }

case $(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) in
    *[[:space:]]*) fail "the path of this source tree has a blank in it, and make cannot name such files: move it" ;;
esac

# step WHAT LOG COMMAND...: one line; on failure the end of the log, its name, and the status. "SECONDS WHAT" is added
# to the file STEP_TIMES, if that is set, with STEP_MARK behind it.
step() {
    local what=$1 log=$2 start=$SECONDS status=0
    shift 2
    mkdir -p "$(dirname "$log")"
    printf '%-44s' "$what ..."
    "$@" >"$log" 2>&1 </dev/null || status=$?
    [[ -z ${STEP_TIMES-} ]] || echo "$((SECONDS - start)) $what${STEP_MARK-}" >>"$STEP_TIMES"
    if [[ $status -eq 0 ]]; then
        echo "done ($((SECONDS - start)) s)"
    else
        echo "FAILED (status $status)"
        tail -n 25 "$log" | sed 's/^/    /'
        echo "    the whole log: $log"
    fi
    return "$status"
}

# make_step WHAT LOG DIR ARGUMENT...: make in a build directory, as a step. On a terminal it shows how many of the files
# that are to be made there are.
make_step() {
    local what=$1 log=$2 dir=$3 watch status=0
    shift 3
    if [[ -t 1 ]]; then
        progress "$what ..." "$log" "$(make -C "$dir" -n "$@" 2>/dev/null | grep -c 'echo "  [A-Z]')" &
        watch=$!
    fi
    step "$what" "$log" make -C "$dir" -j"$jobs" "$@" || status=$?
    [[ ! -t 1 ]] || kill "$watch" 2>/dev/null || true
    return "$status"
}
progress() {
    sleep 1 # until the log is a new one
    while :; do
        printf '\r%-44s%5d/%d ' "$1" "$(grep -c '^  [A-Z]' "$2")" "$3"
        printf '\r%-44s' "$1"
        sleep 1
    done
}

# meanwhile LOG COMMAND...: starts it, with the processors' idle time alone; what it prints goes to LOG.
# await LOG: waits for it, with its share of the processors from then on, shows that, and has its status.
# It does not outlive the script, which has to set no EXIT trap of its own.
declare -A started=()
meanwhile() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    set -m # a process group of its own
    {
        chrt --idle --pid 0 "$BASHPID" || true # not everywhere
        "$@"
    } >"$log" 2>&1 </dev/null &
    set +m
    started[$log]=$!
    trap abandon EXIT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}
await() {
    local status=0 process
    for process in $(pgrep -g "${started[$1]}"); do
        chrt --other --pid 0 "$process" 2>/dev/null || true # it may have ended, or may not
    done
    wait "${started[$1]}" || status=$?
    unset "started[$1]"
    cat "$1"
    return "$status"
}
abandon() {
    local group
    for group in "${started[@]}"; do
        kill -- -"$group" 2>/dev/null || true # it has ended
    done
}

# Files of the source tree: what git knows of, as it is now, or the whole of a tree without git. Each ends with a NUL.
source_files() {
    if in_git; then
        git ls-files -z --cached --others --exclude-standard --deduplicate
    else
        find . -path ./build -prune -o -type f -printf '%P\0'
    fi
}

# Whether this is a clone; a release can be unpacked below one.
in_git() { [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$PWD" ]]; }

# syntax_of COMPILER BUILD ARGUMENT...: whether it accepts all C++ of src, but for the emulated CUDA runtime, whose headers
# are a toolkit's.
syntax_of() {
    find src -name '*.cpp' ! -path '*/softcudart/*' -print0 |
        xargs -0 -P "$jobs" -n 8 "$1" -std=gnu++20 -fsyntax-only -Isrc -I"$2" -I"$2/src" "${@:3}"
}

# Files, with their sizes, and links that setup, a package or an installation may leave.
installed_files() {
    find /etc /usr /tmp "$HOME" -xdev \( -type f -o -type l \) ! -name 'ld.so.cache*' -printf '%p %l %s\n' | sort -u
}

# Makes ./configure when it is missing or older than what it is made from.
bootstrap() {
    if [[ ! -x configure || -n $(find configure.ac Makefile.am src test contrib docs \
        \( -name configure.ac -o -name Makefile.am -o -name Makefile.inc \) -newer configure) ]]; then
        autoreconf -fi
    fi
}

# configure_in DIR [ARGUMENT]...: configures out of tree, again only when something changed; with CONFIGURE_ARGS, if
# that is set, in every build.
configure_in() {
    local dir=$1 stamp
    shift
    # shellcheck disable=SC2086 # no argument contains a blank
    set -- "$@" ${CONFIGURE_ARGS-}
    stamp="$PWD ${CXX-} ${CXXFLAGS-} $*"
    mkdir -p "$dir"
    if [[ ! -x $dir/config.status || configure -nt $dir/config.status ||
        $(cat "$dir/configured-with" 2>/dev/null) != "$stamp" ]]; then
        local root=$PWD
        (cd "$dir" && "$root/configure" "$@" && echo "$stamp" >configured-with)
    fi
}

# build_in DIR: dependencies, configure and make, a step each.
build_in() {
    local dir=$1
    step "contrib/install-deps --test" "$dir/install-deps.log" contrib/install-deps --test
    step "autoreconf" "$dir/autoreconf.log" bootstrap
    step "configure" "$dir/configure.log" configure_in "$dir"
    make_step "build" "$dir/build.log" "$dir" all
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else print "-" }'; }

# ---- MPIs

# mpicxx_of openmpi|mpich: prints that one's compiler: Debian's mpicxx.openmpi, elsewhere the mpicxx in the
# path, if it is that one's. Fails where there is none.
mpicxx_of() {
    command -v "mpicxx.$1" && return
    case $1 in
        openmpi) mpicxx --showme:version 2>/dev/null | grep -q 'Open MPI' ;;
        mpich) mpicxx -v 2>/dev/null | grep -q 'for MPICH' ;;
    esac && command -v mpicxx
}

# mpirun_of openmpi|mpich: its mpirun, if both are there.
mpirun_of() {
    local compiler
    compiler=$(mpicxx_of "$1") && command -v "${compiler/mpicxx/mpirun}"
}

# numbers NUMBER...: of ranks, of which a landing takes two (contrib/check).
numbers() { if [[ ${GDR_TEST_EXTENT-} == all ]]; then echo "$@"; else echo 2; fi; }

# ---- stock ucx_perftest between two processes of this machine

# Prints a TCP port that nobody uses.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        grep -qis "$(local_port "$port")" /proc/net/tcp /proc/net/tcp6 || break # nor lingers in TIME_WAIT
    done
    echo "$port"
}

local_port() { printf '^ *[0-9]*: [0-9A-F]*:%04X ' "$1"; } # a socket's line in /proc/net/tcp
listening() { grep -qis "$(local_port "$1").* 0A " /proc/net/tcp /proc/net/tcp6; }

# perftest_pair LOG SECONDS ARGUMENT...: runs a server and a client through the command in the
# array "launch" (may be empty); leaves LOG.server and LOG.client. Fails when either fails, hangs
# for longer than SECONDS, or the client gives no figures. Standard error would only get the shell's
# remarks about processes that died.
perftest_pair() {
    local log=$1 limit=$2 port server status=0 tries perftest=(ucx_perftest)
    shift 2
    # Debian 13's is an MPI program unless told otherwise.
    [[ $(ucx_perftest -h 2>&1) != *"MPI mode"* ]] || perftest+=(-P 0)
    port=$(free_port)
    timeout -k 2 "$limit" "${launch[@]}" "${perftest[@]}" -p "$port" >"$log.server" 2>&1 </dev/null &
    server=$!
    for ((tries = 0; tries < 200; tries++)); do
        ! listening "$port" || break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    timeout -k 2 "$limit" "${launch[@]}" "${perftest[@]}" 127.0.0.1 -p "$port" -v "$@" \
        >"$log.client" 2>&1 </dev/null || status=$?
    [[ $status -eq 0 ]] || kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || status=$((status ? status : $?))
    [[ $status -eq 0 ]] && perftest_figures "$log" >/dev/null
} 2>/dev/null

# Prints "iterations latency_us bandwidth_MBps messages_per_s median_latency_us" of a finished pair.
perftest_figures() {
    awk -F, '
        /^ *[0-9]+,[0-9.,]+$/ { line = $1 + 0 " " $4 " " $6 " " $8 " " $2 }
        END { if (line == "") exit 1; print line }' "$1.client"
}

# Prints the line that most likely says why a pair failed.
perftest_cause() { cause "$1.client" "$1.server"; }

# ---- what a run left behind

# Prints the line of the logs that most likely says why a run failed.
cause() {
    grep -ahE '^not ok|ERROR|FATAL|FAILED|not used|[Aa]ssert|signal|[Ff]ail|rror:' "$@" | head -n 1 | grep . || echo "no message: it hung or was killed"
}

# Prints "processes gpudirect_bytes staged_bytes host_bytes ipc_bytes" of a file of UCX_GDR_STATS, in which each
# process that used the plugin left a line of words NAME=NUMBER.
statistics_sum() {
    awk '
        /^gdr / {
            lines++
            for (i = 2; i <= NF; i++) { split($i, word, "="); sum[word[1]] += word[2] }
        }
        END {
            printf "%d %.0f %.0f %.0f %.0f\n", lines, sum["gpudirect_bytes"], sum["staged_bytes"],
                sum["host_bytes"], sum["ipc_bytes"]
        }' "$1" 2>/dev/null || echo 0 0 0 0 0
}
