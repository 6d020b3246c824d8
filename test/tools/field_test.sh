#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/field runs to its end on each emulated HCA, and there is nothing private in what it packs.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
for program in python3 ucx_perftest taskset; do
    command -v "$program" >/dev/null || skip_all "$program is missing"
done
[[ $(nproc) -gt 1 ]] || skip_all "two processors are needed"
[[ $GDR_DOCTOR == yes ]] || skip_all "the doctor is not built"
unset LD_PRELOAD GDR_EMULATION UCX_GDR_STATS
mkdir "$work/jdoe"
export HOME=$work/jdoe USER=jdoe TMPDIR=$work
build=$(cd "$top_builddir" && pwd)

field() { timeout -k 5 300 "$top_srcdir/contrib/field" --build "$build" --output "$work/$1.tar.gz" "${@:2}" >"$work/said" 2>&1 </dev/null; }
short=(--rounds 1 --only '^ucp tag_lat 1048576( cuda)?$' --limit 240)

# packed NAME OPTION...: with the emulated HCA.
packed() {
    local name=$1 record=$work/unpacked/$1 file
    shift
    field "$name" --yes "${short[@]}" "$@"
    expect "$name: it runs to the end" 0 $?
    mkdir -p "$work/unpacked"
    tar -C "$work/unpacked" -xzf "$work/$name.tar.gz" || return
    check "$name: what is packed is shown first" [ "$(grep -n "$name/doctor.txt" "$work/said" | cut -d: -f1)" -lt \
        "$(grep -n "is written" "$work/said" | cut -d: -f1)" ]
    for file in doctor.txt doctor.json info.txt ucx.txt protocols.txt bench.txt bench.json statistics.txt counters.txt machine/facts.json; do
        check "$name: $file" [ -s "$record/$file" ]
    done
    check "$name: no step failed" grep -qx nothing "$record/failed.txt"
    check "$name: gdr's figures" grep -qE '^ucp tag_lat 1048576 +us +gdr [0-9.]+' "$record/bench.txt"
    check "$name: protocols of GPU memory" grep -q 'zero-copy' "$record/protocols.txt"
    # shellcheck disable=SC2086 # two words
    expect "$name: nothing private" "" "$(grep -rlwE "$(uname -n)|jdoe" "$record")"
    check "$name: nothing is left" [ -z "$(find "$work" -mindepth 1 -maxdepth 1 -name 'tmp.*')" ]
}
packed softhca --emulate-hca --emulate-gpu
check "softhca: beside rc_verbs" grep -qE '^ucp tag_lat 1048576 .* rc_verbs [0-9.]+' "$work/unpacked/softhca/bench.txt"
field softhca --yes "${short[@]}" --emulate-hca
check "what is there is not overwritten" grep -q "is there already" "$work/said"
if [[ -e $build/src/emu/softmlx5/libsoftmlx5.la ]]; then
    packed softmlx5 --emulate-hca=mlx5 --emulate-gpu
    check "softmlx5: beside rc_mlx5" grep -qE '^ucp tag_lat 1048576 .* rc_mlx5 [0-9.]+' "$work/unpacked/softmlx5/bench.txt"
else
    skip_case "softmlx5" "it is not built"
fi

field unwanted "${short[@]}" --only '^nothing$' --emulate-hca --emulate-gpu
check "without an answer nothing is written" [ ! -e "$work/unwanted.tar.gz" ]
if [[ ! -e /sys/class/infiniband ]]; then
    field bare --yes
    expect "a machine with nothing: the status" 1 $?
    expect "a machine with nothing: one line says so" 1 "$(grep -c '' "$work/said")"
    check "a machine with nothing: the cause" grep -q "^field: there is nothing to measure on this machine: no RDMA device" "$work/said"
fi
field wrong --no-such-option
expect "a wrong option" 64 $?
done_testing
