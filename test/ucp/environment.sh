# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the scripts of test/ucp share: the emulated HCA, the emulated GPU and the module around a
# program. Sourced. A GPU or an HCA of the machine is not used.

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"
# shellcheck source=test/ucx_version.sh
. "$top_srcdir/test/ucx_version.sh"

programs=$top_builddir/test/ucp
# shellcheck source=test/emulated_hca.sh
. "$top_srcdir/test/emulated_hca.sh"
softcuda=$top_builddir/src/emu/softcuda/.libs
module=$top_builddir/src/preload/.libs/libuct_gdr.so.0
mpi_layer=$top_builddir/src/mpi/entries/.libs/libgdr_mpi.so.0
[ "${GDR_MPI:-yes}" = yes ] || mpi_layer= # configure --disable-mpi
for file in "$emulated_hca" "$softcuda/libcuda.so.1" "$module" ${mpi_layer:+"$mpi_layer"}; do
    [ -e "$file" ] || {
        echo "$file is missing: run make first"
        exit 99
    }
done

# shellcheck source=test/environment.sh
. "$top_srcdir/test/environment.sh"
case ${GDR_SANITIZERS:-none} in
*address* | *thread*) export UCPTEST_DEADLINE=120 ;;
esac

export UCX_HANDLE_ERRORS=none # the programs name the case in which they crash
export UCX_TLS=gdr
export UCX_GDR_IPC=n # the ranks stand for hosts that the HCA joins; ipc_*_test.sh are about those of one
# UCX starts a thread for this when it is loaded. The programs fork soon after: a lock that the thread
# holds in that moment (libucm's) would stay locked in the children.
export UCX_VFS_ENABLE=n
export SOFTHCA_FABRIC="ucp_$$" # tests that run at the same time do not meet
export LD_LIBRARY_PATH="$softcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"


# emulated PROGRAM [ARGUMENT]...: on the emulated devices, with the module.
emulated() {
    program=$1
    shift
    timeout -k 5 300 env LD_PRELOAD="$runtime${emulated_hca:+$emulated_hca:}$module" "$programs/$program" "$@"
}

# run PROGRAM [ARGUMENT]...: there it succeeds.
run() {
    echo "$*"
    check "$*" emulated "$@"
}

# run_v2 PROGRAM [ARGUMENT]...: with protocols v2 it does.
run_v2() {
    UCX_PROTO_ENABLE=y check "$*, protocols v2" emulated "$@"
}

# run_cases PROGRAM [ARGUMENT]...: with GoogleTest; its cases are the script's.
run_cases() {
    emulated "$@" >"$work/cases" 2>&1
    ended=$?
    subtests "$work/cases" || ended="$ended, but not all of its cases"
    expect "$*: status" 0 "$ended"
}
