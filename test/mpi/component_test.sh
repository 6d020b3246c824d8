#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The accelerator component for Open MPI 5 and 6: what it declares is what the headers of such an Open MPI say, where those are
# installed; its functions, on the emulated GPU; and that other libraries, older and newer ones and those with a component of
# their own, do not get it. What an Open MPI does with it contrib/matrix shows.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

case ${GDR_SANITIZERS:-none} in
none) ;;
*)
    skip_all "libraries of a test alone are not made for a sanitizer"
    ;;
esac
component=$top_builddir/src/openmpi/.libs/mca_accelerator_gdr.so
options="-std=c++20 -Wall -Wextra -Werror -O2 -I$top_srcdir/src"
export COMPONENT_TIMES=y

# An Open MPI of Debian 13 and later has its internal headers in libopenmpi-dev.
include=$(echo /usr/lib/*/openmpi/include)
"$top_srcdir/test/mpi/component_layout" "$include"
case $? in
0) ok "the headers of Open MPI" ;;
77) skip_case "the headers of Open MPI" "there are none of an Open MPI 5.0 or 6.0" ;;
*) not_ok "the headers of Open MPI" ;;
esac

# library NAME [-DNAME=VALUE]...: with what is not given as in releases of 5.0, or 6.0.
library() {
    name=$1
    shift
    # shellcheck disable=SC2086
    $CXX $options -fPIC -shared -DFAKE_MAJOR="${major:-5}" -DFAKE_MINOR="${minor:-0}" -DFAKE_FUNCTIONS="${functions:-0}" \
        -DFAKE_OBJECT_BYTES="${bytes:-0}" "$@" "$top_srcdir/test/mpi/fake_open_pal.cpp" -o "$work/$name.so" -ldl || exit 99
}
# shellcheck disable=SC2086
$CXX $options $CUDA_CFLAGS "$top_srcdir/test/mpi/component_program.cpp" -o "$work/program" -ldl || exit 99

# program NAME [ARGUMENT]...: its cases, with a library.
program() {
    section "$1"
    name=$1
    shift
    "$work/program" "$work/$name.so" "$component" "$@" >"$work/said" 2>"$work/err"
    status=$?
    subtests "$work/said" || status="$status, but not all of its cases"
    cat "$work/err"
    expect "status" 0 "$status"
    section ""
}
library 5.0
program 5.0
major=6 library 6.0
program 6.0 6.0

# refused NAME TEXT: and says so, or nothing where that is empty.
refused() {
    program "$1" refused
    if { [ -n "$2" ] && grep -q "^gdr: .*mca_accelerator_gdr.so is not used: .*$2" "$work/err"; } ||
        { [ -z "$2" ] && [ ! -s "$work/err" ]; }; then
        ok "$1: ${2:-nothing is said}"
    else
        not_ok "$1: ${2:-nothing is said}" "$work/err"
    fi
}
minor=1 library 5.1
OMPI_COMM_WORLD_LOCAL_RANK=1 refused 5.1 ""
export OMPI_COMM_WORLD_LOCAL_RANK=0
refused 5.1 "Open MPI 5.1.0"
major=6 minor=1 library 6.1
refused 6.1 "Open MPI 6.1.0"
major=6 functions=-1 library few6
refused few6 "another layout"
major=6 library cuda6 -DFAKE_CUDA
refused cuda6 ""
functions=16 library more
refused more "another layout"
bytes=24 library debug
refused debug "another layout"
library cuda -DFAKE_CUDA
refused cuda ""
LD_LIBRARY_PATH=/nonexistent refused 5.0 ""

done_testing
