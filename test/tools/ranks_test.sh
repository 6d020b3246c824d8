#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr run" says about the emulation: once in a job, whatever started it, and always for single programs. A job
# that spans hosts gets none.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

ranks=(OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PALS_RANKID FLUX_TASK_RANK SLURM_PROCID)
unset "${ranks[@]}" GDR_EMULATION
for variable in $(compgen -e | grep -E '^(SLURM|FLUX|PMI|PALS)_|^OMPI_COMM_WORLD|^MPI_LOCAL'); do unset "$variable"; done
export SLURM_STEP_ID=0
said() { "$@" 2>&1 >/dev/null | grep -c 'ucx-gdr: emulated .*, because'; }

alone=$(said "$tool" run true)
[[ $alone -gt 0 ]] || skip_all "this machine has an HCA and a GPU"
for rank in "${ranks[@]}"; do
    expect "$rank=0" "$alone" "$(said env "$rank=0" "$tool" run true)"
    expect "$rank=1" 0 "$(said env "$rank=1" "$tool" run true)"
    expect "$rank=10, ucx-gdr env" 0 "$(said env "$rank=10" "$tool" env)"
done

unset SLURM_STEP_ID
expect "a batch script of Slurm is no rank" "" "$(SLURM_PROCID=0 SLURM_LOCALID=0 "$tool" env 2>/dev/null | grep component_path)"

# job VARIABLE=VALUE...: status, and what it says.
job() {
    answer=$(env "$@" "$tool" run ${option-} true 2>&1)
    echo "$? $(grep -c "^ucx-gdr: $(uname -n): no usable .*, and none is emulated in a job that spans hosts: " <<<"$answer")"
}
openmpi=(OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2)
hydra=(PMI_SIZE=4 MPI_LOCALNRANKS=2)
slurm=(SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2)
expect "two hosts, Open MPI: the first rank of a host says what is missing" "1 $alone" \
    "$(job "${openmpi[@]}" OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=0)"
expect "two hosts, Open MPI: its second rank ends" "1 0" \
    "$(job "${openmpi[@]}" OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1)"
expect "two hosts, MPICH" "1 $alone" "$(job "${hydra[@]}" PMI_RANK=2 MPI_LOCALRANKID=0)"
expect "two hosts, srun" "1 $alone" "$(job "${slurm[@]}" SLURM_PROCID=2 SLURM_LOCALID=0)"
expect "two hosts, srun: the second rank of the first" "1 0" "$(job "${slurm[@]}" SLURM_PROCID=1 SLURM_LOCALID=1)"
expect "two hosts, a batch script" "1 $alone" "$(job SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_NUM_NODES=2)"
expect "two hosts, with what was asked for" "0 0" \
    "$(option="--emulate-hca --emulate-gpu" job "${slurm[@]}" SLURM_PROCID=0 SLURM_LOCALID=0)"
expect "two hosts, --no-emulation" "0 0" "$(option=--no-emulation job "${slurm[@]}" SLURM_PROCID=0 SLURM_LOCALID=0)"

# On one host nothing ends, whoever starts it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR="$work"
for mpi in openmpi mpich; do
    if mpirun=$(mpirun_of $mpi); then
        expect "$mpi, three ranks" "$alone" "$(said timeout -k 5 60 "$mpirun" -n 3 "$tool" run true </dev/null)"
    fi
done
done_testing
