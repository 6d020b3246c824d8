# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the tests of the ucx-gdr command share. Sourced; sets failed=1 when a case fails.

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
[ "${GDR_SANITIZERS:-none}" = none ] || {
    echo "the programs of the system have no sanitizer's run-time library"
    exit 77
}
unset UCX_TLS
for variable in $(env | sed -n 's/^\(OMPI_MCA_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$variable"; done

# shellcheck disable=SC2034 # used by those who source this
ucx_info=$(command -v ucx_info) || {
    echo "no ucx_info (package ucx-utils)"
    exit 77
}
# shellcheck disable=SC2034 # used by those who source this
tool=$top_builddir/src/tools/ucx-gdr

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

expect() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1"
        printf '%s\n' "$2" | sed 's/^/    expected: /'
        printf '%s\n' "$3" | sed 's/^/    found:    /'
        # shellcheck disable=SC2034
        failed=1
    fi
}
