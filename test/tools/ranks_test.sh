#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr run" says about the emulation: once in a job, whatever started it, and always for single
# programs.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

ranks=(OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PALS_RANKID FLUX_TASK_RANK SLURM_PROCID)
unset "${ranks[@]}"
said() { "$@" 2>&1 >/dev/null | grep -c 'ucx-gdr: emulated .*, because'; }

alone=$(said "$tool" run true)
[[ $alone -gt 0 ]] || skip_all "this machine has an HCA and a GPU"
for rank in "${ranks[@]}"; do
    expect "$rank=0" "$alone" "$(said env "$rank=0" "$tool" run true)"
    expect "$rank=1" 0 "$(said env "$rank=1" "$tool" run true)"
    expect "$rank=10, ucx-gdr env" 0 "$(said env "$rank=10" "$tool" env)"
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR="$work"
for mpi in openmpi mpich; do
    if mpirun=$(mpirun_of $mpi); then
        expect "$mpi, three ranks" "$alone" "$(said timeout -k 5 60 "$mpirun" -n 3 "$tool" run true </dev/null)"
    fi
done
done_testing
