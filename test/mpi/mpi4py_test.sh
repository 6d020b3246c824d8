#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Every call of mpi4py that takes a buffer, on GPU memory, with the MPI that mpi4py finds: its package's, or that of
# MPI4PY_MPIABI and MPI4PY_LIBMPI. MPI4PY_PYTHON is another Python than python3, such as a virtual environment's.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

python=${MPI4PY_PYTHON-python3}
case $("$python" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])' 2>/dev/null) in
"Open MPI") mpi=openmpi ;;
MPICH) mpi=mpich ;;
*)
    skip_all "no mpi4py (MPI4PY_PYTHON names a Python that has it)"
    ;;
esac
[[ " ${mpis[*]} " = *" $mpi "* ]] || skip_all "mpi4py is for $mpi, which is not installed"

for number in 1 2 3; do
    ranks $mpi $number "$python" "$top_srcdir/test/mpi/mpi4py_calls.py"
    status=$?
    # "94 ok, 0 failed, 23 lacking; 3 ranks, ...": of MPI 3 there are 84, without neighbours.
    if [[ $status -eq 0 ]] && awk '/ ok, 0 failed, / { told = $1 >= 84 } END { exit !told }' "$log"; then
        ok "$mpi, $number ranks"
        note "$(grep ' ok, 0 failed, ' "$log")"
    else
        grep -v '^ok' "$log" >"$work/said"
        not_ok "$mpi, $number ranks" "$work/said"
        note "status $status"
    fi
done
done_testing
