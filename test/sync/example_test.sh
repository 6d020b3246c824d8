#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/examples/stream.cpp, compiled as its first lines say, on the emulated devices.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

export LD_LIBRARY_PATH=$top_builddir/src/sync/.libs:$LD_LIBRARY_PATH
for mpi in "${mpis[@]}"; do
    line=$(sed -n 's|^// *mpicxx \(.*\) stream.cpp -o stream \(.* -ldl\)$|\1 \2|p' \
        "$top_srcdir/contrib/examples/stream.cpp")
    # shellcheck disable=SC2086 # arguments
    "$(mpicxx_of "$mpi")" -I"$top_srcdir/src/sync" -L"$top_builddir/src/sync/.libs" ${CUDA_CFLAGS:-} \
        "$top_srcdir/contrib/examples/stream.cpp" -o "$work/$mpi" $line || exit 99
    for numbers in 2 1000000; do
        ranks "$mpi" 2 "$work/$mpi" $numbers
        status=$?
        if [[ $status = 0 && $(grep -c "100 rounds of $numbers numbers, 0 wrong" "$log") = 2 ]]; then
            echo "ok: $mpi, $numbers numbers"
        else
            echo "FAILED: $mpi, $numbers numbers (status $status)"
            head -n 60 "$log"
            failed=1
        fi
    done
done
exit $failed
