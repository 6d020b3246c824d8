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

ucx_info=$(command -v ucx_info) || {
    echo "no ucx_info (package ucx-utils)"
    exit 77
}
# shellcheck disable=SC2034 # used by those who source this
tool=$top_builddir/src/tools/ucx-gdr plugins=$top_builddir/src/plugin/plugins
if [ "$(ucx_minor)" -ge 22 ]; then right_way=plugins; else right_way=preload; fi

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

expect() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1"
        printf '%s\n' "$2" | sed 's/^/    expected: /'
        printf '%s\n' "$3" | sed 's/^/    found:    /'
        failed=1
    fi
}

# make_ucx DIR TEXT: a UCX of which only the names and TEXT in its libucs are there, and DIR/program, linked with it
# by its place. Started, any of them would leave DIR/started.
make_ucx() {
    mkdir "$1"
    echo "extern \"C\" const char *text() { return \"$2\"; }" >"$1/ucs.cpp"
    echo 'extern "C" const char *text(); extern "C" const char *uct() { return text(); }' >"$1/uct.cpp"
    echo 'extern "C" const char *uct(); extern "C" const char *ucp() { return uct(); }' >"$1/ucp.cpp"
    cat >"$1/program.cpp" <<END
#include <cstdio>
extern "C" const char *ucp();
static std::FILE *const started = std::fopen("$1/started", "w");
int main() { return ucp() == nullptr; }
END
    (
        cd "$1" || exit 99
        rpath="-Wl,--disable-new-dtags -Wl,-rpath,$1" # before LD_LIBRARY_PATH
        link="$CXX -fPIC -shared $rpath"
        $link ucs.cpp -o libucs.so.0 -Wl,-soname,libucs.so.0 &&
            $link uct.cpp -o libuct.so.0 -Wl,-soname,libuct.so.0 libucs.so.0 &&
            $link ucp.cpp -o libucp.so.0 -Wl,-soname,libucp.so.0 libuct.so.0 &&
            $CXX program.cpp -o program $rpath libucp.so.0 libuct.so.0 libucs.so.0
    ) || exit 99
}
