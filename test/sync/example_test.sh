#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/examples/stream.cpp and bcast.cpp, compiled as their first lines say, on the emulated devices.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export LD_LIBRARY_PATH=$top_builddir/src/sync/.libs:$LD_LIBRARY_PATH

# example MPI NAME RANKS NUMBERS...: each rank says that nothing was wrong.
example() {
    local mpi=$1 name=$2 count=$3 numbers line
    shift 3
    line=$(sed -n "s|^// *mpicxx \\(.*\\) $name.cpp -o $name \\(.* -ldl\\)\$|\\1 \\2|p" \
        "$top_srcdir/contrib/examples/$name.cpp")
    # shellcheck disable=SC2086 # arguments
    "$(mpicxx_of "$mpi")" -I"$top_srcdir/src/sync" -L"$top_builddir/src/sync/.libs" ${CUDA_CFLAGS:-} \
        "$top_srcdir/contrib/examples/$name.cpp" -o "$work/$mpi.$name" $line || exit 99
    for numbers; do
        ranks "$mpi" "$count" "$work/$mpi.$name" "$numbers"
        status=$?
        if [[ $status = 0 && $(grep -c "100 rounds of $numbers numbers, 0 wrong" "$log") = "$count" ]]; then
            echo "ok: $name, $mpi, $numbers numbers"
        else
            echo "FAILED: $name, $mpi, $numbers numbers (status $status)"
            head -n 60 "$log"
            failed=1
        fi
    done
}

for mpi in "${mpis[@]}"; do
    example "$mpi" stream 2 2 1000000
    example "$mpi" bcast 4 2 10000
done
exit $failed
