#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# ucx-gdr under a real Slurm, which the script starts for itself: two nodes that are both this host, the second by another
# name. Steps, batch scripts, and MPI programs on GPU memory without mpirun. slurm_test.sh has what this cannot make.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
# shellcheck source=test/tools/slurm.sh
. "$top_srcdir/test/tools/slurm.sh"
for program in munged slurmctld slurmd srun sbatch; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || skip_all "no $program (packages munge, slurmctld, slurmd, slurm-client)"
done
[[ $(id -u) -eq 0 ]] || skip_all "slurmd has to be root"
PATH=$PATH:/usr/sbin

host=$(uname -n) slurm=$work/slurm port=$((20000 + $$ % 20000))
mkdir -p "$slurm/state"
chmod 755 "$work" "$slurm"
export SLURM_CONF=$slurm/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge.socket
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
NodeName=$host NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 RealMemory=100
NodeName=another NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4 RealMemory=100
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
END
(umask 077 && head -c 64 /dev/urandom >"$slurm/key")
daemons=() # which end by themselves, or are ended
at_exit 'scontrol shutdown >/dev/null 2>&1; sleep 1; kill "${daemons[@]}" 2>/dev/null'
munged --foreground --force --key-file="$slurm/key" --socket="$slurm/munge.socket" --pid-file="$slurm/munge.pid" \
    --seed-file="$slurm/munge.seed" --log-file="$slurm/munge.log" >"$slurm/munge.out" 2>&1 &
daemons+=($!)
for ((i = 0; i < 50; i++)); do [[ -S $slurm/munge.socket ]] && break || sleep 0.1; done
slurmctld -D >"$slurm/slurmctld.out" 2>&1 &
daemons+=($!)
for node in "$host" another; do
    slurmd -D -N "$node" >"$slurm/$node.out" 2>&1 &
    daemons+=($!)
done
for ((i = 0; i < 300; i++)); do [[ $(sinfo -h -t idle -o %D 2>/dev/null) == 2 ]] && break || sleep 0.1; done
[[ $(sinfo -h -t idle -o %D 2>/dev/null) == 2 ]] || {
    tail -n 5 "$slurm"/*.log "$slurm"/*.out
    skip_all "Slurm does not start here: $(sinfo 2>&1 | tail -n 1)"
}

# task NUMBER ARGUMENT...: tasks on this host.
task() { timeout -k 5 120 srun --overcommit -w "$host" -N 1 --chdir=/tmp -n "$@"; }

for mpi in $(srun --mpi=list 2>&1 | grep -oxE '[[:space:]]*(none|pmi2|pmix)' | sort); do
    section "--mpi=$mpi"
    expect "one node, four tasks: one line" "emulated HCA, because" "$(said task 4 --mpi="$mpi" "${run[@]}" true)"
    expect "all are run" 4 "$(task 4 --mpi="$mpi" "${run[@]}" echo here 2>/dev/null | grep -c here)"
done

section "two nodes"
timeout -k 5 60 srun --overcommit -N 2 -n 4 --chdir=/tmp "${run[@]}" echo here >"$work/two" 2>&1
expect "nothing is run" "1 0" "$? $(grep -c '^here$' "$work/two")"
expect "a line for each says why" 2 "$(grep -c 'no usable HCA, and none is emulated in a job that spans hosts' "$work/two")"

section "a batch script"
cat >"$work/batch" <<END
#!/bin/bash
eval "\$($tool env $emulate_hca --emulate-gpu)"
srun --overcommit -n 2 env
END
timeout -k 5 60 sbatch --wait -w "$host" -N 1 --overcommit --chdir=/tmp --output="$work/batch.out" "$work/batch" >/dev/null 2>&1
expect "what it evaluates reaches its steps" 2 "$(grep -c "^LD_PRELOAD=$emulated_hca:$module" "$work/batch.out")"

# What starts the ranks of an MPI without its mpirun.
section "MPI without mpirun"
for mpi in openmpi:pmix mpich:pmi2; do
    program=$top_builddir/test/mpi/mpi_calls.${mpi%:*}
    if ! mpirun_of "${mpi%:*}" >/dev/null || [[ ! -x $program ]]; then
        skip_case "${mpi%:*}" "it is not there"
        continue
    fi
    check "${mpi%:*}, four ranks, GPU memory" task 4 --mpi="${mpi#*:}" env OMPI_MCA_pml=ucx "${run[@]}" \
        "$program" cuda 1000 MPI_Send MPI_Bcast MPI_Allreduce MPI_Alltoall
done
done_testing
