# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What tests under Slurm share. Sourced after test/tools/environment.sh.

[[ ! -e /sys/class/infiniband ]] || skip_all "this machine has an HCA"
for variable in $(compgen -e | grep -E '^(SLURM|FLUX|PMI|PMIX|PALS)|^OMPI_|^MPI_LOCAL|^GDR_EMULATION'); do unset "$variable"; done

# shellcheck disable=SC2034,SC2154 # used by those who source this; of test/tools/environment.sh
run=("$tool" run --emulate-gpu)
# said COMMAND...: what ucx-gdr says, of all tasks.
said() { "$@" 2>&1 >/dev/null | sed -n 's/^ucx-gdr: //p' | sed 's/: no RDMA device.*//' | sort; }
