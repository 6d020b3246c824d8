# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the tests of the ucx-gdr command share. Sourced.

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
[ "${GDR_SANITIZERS:-none}" = none ] || skip_all "the programs of the system have no sanitizer's run-time library"
unset UCX_TLS
for variable in $(env | sed -n 's/^\(OMPI_MCA_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$variable"; done

# shellcheck disable=SC2034 # used by those who source this
ucx_info=$(command -v ucx_info) || skip_all "no ucx_info (package ucx-utils)"
# shellcheck disable=SC2034 # used by those who source this
tool=$top_builddir/src/tools/ucx-gdr

# The lines of "ucx-gdr info" as they are before it folds them.
unfold() { awk '/^             [^ ]/ { sub(/^ +/, " "); line = line $0; next } NR > 1 { print line } { line = $0 } END { print line }'; }

# copy_ucx DIRECTORY: the libraries of UCX go there.
copy_ucx() {
    mkdir -p "$1"
    for library in libucm libucs libuct libucp; do
        cp -L "$(ldd "$ucx_info" | awk -v name=$library.so.0 '$1 == name { print $3 }')" "$1/$library.so.0"
    done
}
# Prints where another UCX is: GDR_TEST_OTHER_UCX, a prefix, or a copy of this one.
other_ucx() {
    if [ -n "${GDR_TEST_OTHER_UCX-}" ]; then
        echo "$GDR_TEST_OTHER_UCX/lib"
    else
        copy_ucx "$work/other"
        echo "$work/other"
    fi
}
