# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# mpi4py's own tests on host memory: none ends worse than without ucx-gdr, over UCX's own transports. Sourced, with "mpi"
# set. MPI4PY_SOURCE is a directory with mpi4py's sources of the version that is installed for MPI4PY_PYTHON (python3). A
# landing has the tests of mpi4py.util.pkl5 on one rank, GDR_TEST_EXTENT=all the whole on one to three; mpi4py_skips says
# what is left out.

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

python=${MPI4PY_PYTHON-python3}
[[ -e ${MPI4PY_SOURCE-}/test/main.py ]] || skip_all "no sources of mpi4py (MPI4PY_SOURCE)"
mpirun=$(mpirun_of $mpi) || skip_all "no $mpi"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 MPIR_CVAR_POLLS_BEFORE_YIELD=1 TMPDIR="$work"
export MPI4PY_MPIABI=$mpi
if [[ $mpi = mpich ]]; then # whose library has another name in Debian
    export LD_LIBRARY_PATH="$work/lib:$LD_LIBRARY_PATH"
    mkdir "$work/lib"
    library=$(PATH=$PATH:/sbin ldconfig -p | awk '$1 == "libmpich.so.12" { print $NF; exit }')
    [[ -z $library ]] || ln -s "$library" "$work/lib/libmpi.so.12"
fi
vendor=$("$python" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])' 2>/dev/null)
case $mpi,$vendor in
"openmpi,Open MPI" | mpich,MPICH) ;;
*) skip_all "no mpi4py for $mpi (MPI4PY_PYTHON names a Python that has it)" ;;
esac
awk -v mpi=$mpi '$1 == mpi || $1 == "*" { print $2 }' "$top_srcdir/test/mpi/mpi4py_skips" >"$work/skips"

# suite HOW NUMBER [COMMAND]...: outcomes in files HOW.NUMBER.RANK.
suite() {
    timeout -k 5 "${MPI4PY_LIMIT-240}" "$mpirun" -n "$2" "${@:3}" "$python" "$top_srcdir/test/mpi/mpi4py_suite.py" "$MPI4PY_SOURCE" \
        "$work/$1.$2" -q --xfile "$work/skips" "${chosen[@]}" >"$work/$1.log" 2>&1 </dev/null
}
# Open MPI's settings are those of ucx-gdr run.
without() {
    OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx,sm OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any suite without "$1"
}

# worse BEFORE AFTER: the tests that went well and do not, or that fail and did not.
worse() {
    comm -3 <(went_well "$1") <(went_well "$2") | sed -n '/^[^\t]/p'
    comm -3 <(failed "$1") <(failed "$2") | sed -n 's/^\t//p'
}
went_well() { grep -E ': (ok$|skipped|fails as it may)' "$1" | sort -u; }
failed() { grep -E ': (fails|has an error|a part of it fails)$' "$1" | sort -u; }

chosen=(-i test_util_pkl5) all_ranks=1
! extended || chosen=() all_ranks='1 2 3'
for number in $all_ranks; do
    without "$number"
    note "$number ranks: status $? without ucx-gdr"
    suite with "$number" "$tool" run "$emulate_hca" --emulate-gpu
    note "$number ranks: status $? with it"
    for ((rank = 0; rank < number; ++rank)); do
        check "$number ranks, rank $rank: there are outcomes" grep -q ': ok$' "$work/without.$number.$rank"
        worse "$work/without.$number.$rank" "$work/with.$number.$rank" >"$work/worse"
        expect "$number ranks, rank $rank: none ends worse" "" "$(head -n 40 "$work/worse")"
        note "fails without ucx-gdr alone: $(worse "$work/with.$number.$rank" "$work/without.$number.$rank" | tr '\n' ' ')"
        note "rank $rank: $(sed 's/.*: \(begins\|ok\|skipped\).*/\1/' "$work/with.$number.$rank" | sort | uniq -c | tr '\n' ' ')"
    done
done
done_testing
