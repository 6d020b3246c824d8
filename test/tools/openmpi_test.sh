#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "mpirun ucx-gdr run" with Open MPI as it is installed: its UCX layers are selected, for messages and for
# windows, and GPU memory goes by GPUDirect.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
if ! mpirun=$(mpirun_of openmpi); then
    skip_all "no Open MPI (libopenmpi-dev openmpi-bin)"
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR="$work"

for call in MPI_Send MPI_Put; do
    UCX_GDR_STATS=$work/$call timeout -k 5 60 "$mpirun" --oversubscribe -n 2 \
        "$tool" run "$emulate_hca" --emulate-gpu "$top_builddir/test/mpi/mpi_calls.openmpi" cuda 100000 $call >"$work/log" 2>&1 </dev/null
    status=$?
    sed 's/^/    /' "$work/log"
    expect "$call" 0 $status
    expect "$call: 400 kB of GPU memory by GPUDirect" yes \
        "$(awk -v RS='[ \n]' -F= '$1 == "gpudirect_bytes" && $2 >= 400000 { print "yes"; exit }' "$work/$call")"
done

done_testing
