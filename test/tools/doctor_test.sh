#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr doctor" on this machine: its exit status, its JSON, and what it finds of faults that the environment, files and
# limits bring. What the checks find of devices is in test/unit/doctor_device_test.cpp.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
unset LD_PRELOAD GDR_EMULATION FI_PROVIDER UCX_CONFIG_DIR
export HOME=$work/home
mkdir "$HOME" "$work/job"
cd "$work/job" || exit 99 # a ucx.conf is looked for here

if [[ $GDR_DOCTOR != yes ]]; then
    "$tool" doctor >"$work/said" 2>&1
    expect "a build without it: the status" 64 $?
    check "a build without it: what is missing" grep -q libcli11-dev "$work/said"
    done_testing
fi

# doctor [ARGUMENT]...: leaves what it says in $work/said, and its status.
doctor() {
    timeout -k 5 60 "$tool" doctor "$@" >"$work/said" 2>&1 </dev/null
    status=$?
}
# found ID [WORD]: the word in front of the finding's id.
word_of() { awk -v id="$1" '{ sub(/\033.*m/, "") } $2 == id { print $1; exit }' "$work/said"; }
# finds NAME WORD ID TEXT [ARGUMENT]...: the finding has the word in front of it, and the text.
finds() {
    local name=$1 word=$2 id=$3 text=$4
    shift 4
    doctor --verbose "$@"
    if [[ $(word_of "$id") == "$word" ]] && grep -qF -e "$text" "$work/said"; then ok "$name"; else not_ok "$name" "$work/said"; fi
}

section "what it prints"
before=$(find "$HOME" "$work/job" | sort)
doctor
check "the verdict comes first" grep -q "^1:ucx-gdr doctor .*, host $(uname -n): .* error" <(grep -n ^ "$work/said")
check "what was found in order comes last" grep -qE '^ok +[0-9]+ checks' <(tail -n 1 "$work/said")
expect "it changes nothing" "$before" "$(find "$HOME" "$work/job" | sort)"
if [[ ! -e /sys/class/infiniband && ! -e /proc/driver/nvidia/version ]]; then
    expect "a machine without devices has no GPUDirect" 2 "$status"
    check "a machine without devices: it says so" grep -qE '^ERROR +hca.none' "$work/said"
fi
start=$(date +%s%N)
doctor --json true
check "it takes two seconds at most" [ $((($(date +%s%N) - start) / 1000000)) -lt 2000 ]
doctor --no-such-option
expect "a wrong option" 64 "$status"
doctor --help
expect "help: the status" 0 "$status"

section "JSON"
doctor --json mpirun -n 2 true
expect "the exit status is in it" "$status" "$(sed -n 's/^  "exit": \([0-9]\),*$/\1/p' "$work/said")"
schema=$top_srcdir/docs/reference/doctor.schema.json
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    valid() { /usr/bin/python3 -c 'import json, jsonschema, sys
jsonschema.validate(*(json.load(open(name)) for name in sys.argv[1:]))' "$1" "$schema"; }
    check "it is as the schema says" valid "$work/said"
    sed 's/"status": "pass"/"status": "fine"/' "$work/said" >"$work/wrong"
    check "the schema does not take everything" fails valid "$work/wrong" 2>/dev/null
else
    for name in $(sed -n 's/^  "required": \[\(.*\)\],/\1/p' "$schema" | tr -d '",'); do
        check "it has $name" grep -q "^  \"$name\": " "$work/said"
    done
fi

page=$top_srcdir/docs/howto/doctor.md
expect "each check is in docs/howto/doctor.md" "" "$(sed -n 's/^      "id": "\(.*\)",/\1/p' "$work/said" | while read -r id; do
    grep -q "^| .*\`$id\`.* |" "$page" || echo "$id"
done)"

section "dumps"
UCX_TLS=rc doctor --verbose --dump "$work/dump" mpirun -n 2 true
cp "$work/said" "$work/before"
expected=$status
doctor --verbose --replay "$work/dump"
expect "a dump has the same exit status" "$expected" "$status"
check "a dump shows the same" diff <(sed 1d "$work/before") <(sed 1d "$work/said")
check "the name of the host is not in it" fails grep -rqw "$(uname -n)" "$work/dump"
check "it is small" [ "$(du -sk "$work/dump" | cut -f 1)" -lt 4096 ]
doctor --dump "$work/dump"
check "what is there is not overwritten" grep -q "is there already" "$work/said"
doctor --replay "$work/nothing"
expect "no dump" 64 "$status"

section "faults"
UCX_TLS=rc,tcp finds "UCX_TLS" ERROR ucx.env "UCX_TLS=rc,tcp leaves gdr out"
check "UCX_TLS: what mends it" grep -qF "fix: unset UCX_TLS" "$work/said"
finds "no UCX_TLS" ok ucx.env ""
echo "UCX_MODULES = ^gdr" >ucx.conf
finds "a ucx.conf in the current directory" ERROR ucx.conf "$work/job/ucx.conf: UCX_MODULES=^gdr leaves gdr out"
eval "$(sed -n "s/^ *fix: \(sed -i .*ucx.conf\)$/\1/p" "$work/said")"
finds "a ucx.conf that was mended as told" info ucx.conf "UCX reads $work/job/ucx.conf"
rm ucx.conf
finds "no ucx.conf" ok ucx.conf ""
UCX_GDR_STAT=- finds "a variable that is not gdr's" WARNING ucx.env "is UCX_GDR_STATS meant?"
(
    ulimit -l 1024
    [[ $(id -u) == 0 ]] || finds "locked memory" ERROR limits.memlock "1 MiB may be locked"
    ulimit -n 256
    finds "descriptors" WARNING limits.nofile "256 files may be open"
)
finds "a command that is not there" ERROR launch.command "./nothing is not found" ./nothing
expect "a command that is not there: the status" 3 "$status"
finds "nothing brings gdr" ERROR launch.preload "nothing brings gdr into true" true
finds "ucx-gdr run brings it" ok launch.preload "gdr comes by ucx-gdr run" "$tool" run true
program=$(for file in /usr/bin/su /usr/bin/passwd /usr/bin/mount; do [[ ! -u $file || -O $file ]] || echo "$file"; done | head -n 1)
[[ -z $program ]] ||
    finds "a set-uid program" ERROR launch.preload "takes another user or group (set-uid)" "$tool" run "$program"
if echo 'int main(void) { return 0; }' | gcc -static -x c -o still - 2>/dev/null; then
    finds "a static program" ERROR launch.preload "is statically linked" "$tool" run ./still
fi
LD_PRELOAD='' finds "an emulated HCA" ERROR hca.emulated "emulated" "$tool" run --emulate-hca true
LD_LIBRARY_PATH=$top_builddir/src/emu/softcuda/.libs finds "emulated GPUs" ERROR gpu.emulated "the GPUs are emulated"
expect "emulated devices are not the real ones" 2 "$status"

section "jobs"
for variable in $(compgen -e | grep -E '^(SLURM|FLUX|PMI|PMIX|PALS)_|^OMPI_COMM_WORLD|^MPI_LOCAL'); do unset "$variable"; done
# job OUTPUT ARGUMENT...: under the stand-in for srun, on two nodes.
job() {
    timeout -k 5 100 "$top_srcdir/test/tools/srun" -N 2 -n 4 "$tool" doctor --job "$@" >"$work/said" 2>&1 </dev/null
    status=$?
}
doctor --job
expect "outside of a job: the status" 64 "$status"
check "outside of a job: it says so" grep -q "no launcher has set the number of this rank" "$work/said"
job
check "a job has one report" grep -q "^1:ucx-gdr doctor .*, job of 4 ranks on [12] hosts*: .* error" <(grep -n ^ "$work/said")
check "a job: nothing is said twice" [ "$(grep -c '^ERROR   hca.none' "$work/said")" -le 1 ]
expect "a job leaves nothing" "" "$(find . -name '.ucx-gdr*')"
check "a job: its status is the report's" [ "$status" -le 3 ]
job --json
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    schema=$top_srcdir/docs/reference/doctor-job.schema.json
    check "a job's JSON is as the schema says" valid "$work/said"
fi
expect "a job's JSON has each rank" 4 "$(grep -c '^      "rank": ' "$work/said")"
# shellcheck disable=SC2016 # expands there
varied='[ "$SLURM_PROCID" != 3 ] || { export UCX_TLS=rc; ulimit -n 256; }; exec "$@"'
timeout -k 5 100 "$top_srcdir/test/tools/srun" -N 2 -n 4 sh -c "$varied" sh "$tool" doctor --job >"$work/said" 2>&1
check "a variable of one rank" grep -qE '^ERROR   ucx.env +on .* \(rank 3\): UCX_TLS=rc leaves gdr out' "$work/said"
check "a variable that differs" grep -qE '^WARNING job.env +UCX_TLS differs: none on .* \(ranks 0-2\); rc on .* \(rank 3\)' "$work/said"
check "a limit that differs" grep -qE '^WARNING job.limits +open files differ: .*256 on .* \(rank 3\)' "$work/said"
# shellcheck disable=SC2016 # expands there
apart='[ "$SLURM_PROCID" = 0 ] || cd "$HOME" && exec "$@"'
timeout -k 5 100 "$top_srcdir/test/tools/srun" -N 2 -n 2 sh -c "$apart" sh "$tool" doctor --job --job-wait 1 >"$work/said" 2>&1
expect "a directory that is not shared: the status" 64 $?
check "a directory that is not shared: the first rank" grep -q "nothing was heard of rank 1" "$work/said"
check "a directory that is not shared: the other" grep -q "rank 1 does not see .*: name a directory that all hosts share" "$work/said"
for seconds in '' x 1x -1 nan 86401; do
    "$tool" doctor --job --job-wait "$seconds" >"$work/said" 2>&1
    expect "--job-wait \"$seconds\" is refused: the status" 64 $?
    check "--job-wait \"$seconds\" is refused" grep -qF -- "\"$seconds\" is no time" "$work/said"
done
timeout -k 5 100 "$top_srcdir/test/tools/srun" -N 2 -n 2 sh -c "$apart" sh "$tool" doctor --job --job-dir "$work" >"$work/said" 2>&1
check "a directory that is named" grep -q "job of 2 ranks" "$work/said"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR="$work"
for mpi in openmpi mpich; do
    if mpirun=$(mpirun_of $mpi); then
        timeout -k 5 100 "$mpirun" -n 3 "$tool" doctor --job >"$work/said" 2>&1 </dev/null
        check "$mpi, three ranks: one report" [ "$(grep -c 'job of 3 ranks on 1 host: ' "$work/said")" = 1 ]
        check "$mpi, three ranks: nothing differs" fails grep -q differ "$work/said"
    fi
done
unset OMPI_MCA_rmaps_base_oversubscribe

section "Open MPI"
if mpirun=$(mpirun_of openmpi); then
    finds "it finds UCX" ok mpi.noucx "Open MPI was built with UCX" "$mpirun" -n 2 true
    mkdir -p "$HOME/.openmpi"
    echo "pml = ^ucx" >"$HOME/.openmpi/mca-params.conf"
    finds "pml of the user's file" ERROR mpi.pml "$HOME/.openmpi/mca-params.conf says pml = ^ucx" "$mpirun" -n 2 true
    finds "pml with ucx-gdr run" ok mpi.pml "ucx-gdr run has Open MPI use UCX" "$mpirun" -n 2 "$tool" run true
    echo "pml = ucx" >"$HOME/.openmpi/mca-params.conf"
    finds "pml that was mended" ok mpi.pml "Open MPI uses UCX" "$mpirun" -n 2 true
    OMPI_MCA_pml=ob1 finds "pml of the environment" ERROR mpi.pml "OMPI_MCA_pml=ob1" "$mpirun" -n 2 "$tool" run true
    finds "pml of the command line" ERROR mpi.pml "--mca pml ob1" "$mpirun" --mca pml ob1 -n 2 true
else
    skip_case "it finds UCX" "no Open MPI"
fi
if mpirun=$(mpirun_of mpich); then
    finds "MPICH is known" ok mpi.noucx "MPICH was built with UCX" "$mpirun" -n 2 true
fi
done_testing
