#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# ucx-gdr under Slurm, of which test/tools/srun sets the variables: what steps, batch scripts and interactive shells get, and
# that one rank of each host speaks.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=test/tools/slurm.sh
. "$top_srcdir/test/tools/slurm.sh"

srun=$top_srcdir/test/tools/srun

for mpi in none pmi2 pmix; do
    section "--mpi=$mpi"
    expect "one node, four tasks: one line" "emulated HCA, because" "$(said "$srun" -n 4 --mpi=$mpi "${run[@]}" true)"
    expect "all are run" 4 "$("$srun" -n 4 --mpi=$mpi "${run[@]}" echo here 2>/dev/null | grep -c here)"
    expect "ucx-gdr env, too" "emulated HCA, because" "$(said "$srun" -n 4 --mpi=$mpi "$tool" env --emulate-gpu)"
    expect "two nodes: a line for each" 2 \
        "$(said "$srun" -N 2 -n 4 --mpi=$mpi "${run[@]}" true | grep -c 'no usable HCA, and none is emulated in a job that spans hosts')"
    "$srun" -N 2 -n 4 --mpi=$mpi "${run[@]}" true 2>/dev/null
    expect "and nothing is run" 1 $?
    expect "two nodes, with what is asked for" 4 \
        "$("$srun" -N 2 -n 4 --mpi=$mpi "${run[@]}" "$emulate_hca" echo here 2>&1 | grep -c '^here$')"
    if [[ ${GDR_MPI:-yes} = yes ]]; then
        expect "tasks have the component of Open MPI" 4 \
            "$("$srun" -n 4 --mpi=$mpi "${run[@]}" env 2>/dev/null | grep -c ^OMPI_MCA_mca_base_component_path=)"
    fi
done

section ""
expect "--export=NONE leaves a step with what ucx-gdr run sets there" 2 \
    "$("$srun" -n 2 --export=NONE "${run[@]}" "$emulate_hca" env 2>/dev/null | grep -c "^LD_PRELOAD=$emulated_hca:$module")"
expect "what a batch script evaluates reaches its steps" 2 "$(
    eval "$(SLURM_JOB_NUM_NODES=1 "$tool" env "$emulate_hca" --emulate-gpu)"
    "$srun" -n 2 env | grep -c "^LD_PRELOAD=$emulated_hca:$module"
)"
export SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2 SLURM_JOB_ID=1
expect "a step on one node of two emulates" "emulated HCA, because" "$(said "$srun" -n 2 "${run[@]}" true)"
# What salloc starts on a node has a step's variables, and an identifier that no step of a user's has.
interactive=(env SLURM_STEP_ID=4294967290 SLURM_STEPID=4294967290 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1
    SLURM_PROCID=0 SLURM_LOCALID=0 SLURMD_NODENAME="$(uname -n)")
expect "an interactive shell is no rank: its mpirun gets no component path" "" \
    "$("${interactive[@]}" "$tool" env "$emulate_hca" --emulate-gpu | grep component_path)"
expect "it is on the hosts of its allocation, as a batch script is" 1 \
    "$(said "${interactive[@]}" "${run[@]}" true | grep -c 'in a job that spans hosts')"
unset SLURM_JOB_NUM_NODES SLURM_NNODES
expect "tasks in containers with names of their own" \
    "$(uname -n): no usable HCA, and none is emulated in a job whose ranks are in containers of their own (on elsewhere, says its launcher)" \
    "$(said "$srun" -n 2 env SLURMD_NODENAME=elsewhere.site "${run[@]}" true | sed 's/elsewhere.site/elsewhere/' | uniq)"
expect "a node by its full name is the same" "emulated HCA, because" \
    "$(said "$srun" -n 2 env SLURMD_NODENAME="$(uname -n).site" "${run[@]}" true)"
done_testing
