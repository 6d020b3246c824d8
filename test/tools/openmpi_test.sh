#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "mpirun ucx-gdr run" with Open MPI as it is installed: its UCX layers are selected, for messages and for
# windows, and GPU memory goes by GPUDirect.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

if ! command -v mpicxx.openmpi >/dev/null || ! command -v mpirun.openmpi >/dev/null; then
    echo "no mpicxx.openmpi and mpirun.openmpi (libopenmpi-dev openmpi-bin)"
    exit 77
fi
# shellcheck disable=SC2086 # options
mpicxx.openmpi -std=c++20 -O1 -DOMPI_SKIP_MPICXX ${CUDA_CFLAGS:-} "$top_srcdir/test/mpi/mpi_calls.cpp" \
    -o "$work/mpi_calls" -ldl || exit 99
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR="$work"

for call in MPI_Send MPI_Put; do
    UCX_GDR_STATS=$work/$call timeout -k 5 60 mpirun.openmpi --oversubscribe -n 2 \
        "$tool" run --emulate-hca --emulate-gpu "$work/mpi_calls" $call cuda 100000 >"$work/log" 2>&1 </dev/null
    status=$?
    [ $status = 0 ] || sed 's/^/    /' "$work/log"
    expect "$call" 0 $status
    expect "$call: 400 kB of GPU memory by GPUDirect" yes \
        "$(awk -v RS='[ \n]' -F= '$1 == "gpudirect_bytes" && $2 >= 400000 { print "yes"; exit }' "$work/$call")"
done

exit $failed
