#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Compares the declarations in src/abi with UCX source trees (configure --with-ucx-source=DIR,...), by the
# compiler: layout_check.cpp holds the assertions. A tree is used as it was unpacked, not configured. That the
# assertions can fail is verified first, with an offset made wrong in what all series share and in the tree's own.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

if [ -z "${UCX_SOURCE_TREES:-}" ]; then
    skip_all "no UCX source tree; configure with --with-ucx-source=DIR (contrib/ucx-source fetches one)"
fi

here=$top_srcdir/test/unit

# What UCX's configure would have made, as far as its headers ask for it.
mkdir -p "$work/ucp/api" "$work/uct/api"
: >"$work/config.h"
: >"$work/ucp/api/ucp_version.h"
: >"$work/uct/api/version.h"

version_of() { # TREE major|minor|patch
    sed -n "s/^define(\[ucx_ver_$2\], *\([0-9]*\)).*/\1/p" "$1/configure.ac"
}

# compile TREE FLAG...: diagnostics in $work/log
compile() {
    tree=$1
    shift
    $CXX -std=gnu++20 -w -DHAVE_CONFIG_H -DENABLE_DEBUG_DATA=0 -DENABLE_PARAMS_CHECK=1 \
        -DUCP_API_MAJOR="$(version_of "$tree" major)" -DUCP_API_MINOR="$(version_of "$tree" minor)" \
        -I"$work" -I"$tree/src" -I"$top_srcdir/src" "$@" >"$work/log" 2>&1
}

# shellcheck disable=SC2086 # CXX and UCX_CFLAGS are lists of words
if ! $CXX -std=gnu++20 -w $UCX_CFLAGS -o "$work/installed" "$here/layout_public.cpp" ||
    ! "$work/installed" >"$work/installed.txt"; then
    not_ok "layout_public.cpp with the installed headers"
    done_testing
fi

fail() {
    sed -n '/error/p' "$work/log" | head -n 20 >"$work/errors"
    not_ok "$1" "$work/errors"
}

caught() { # FIELD
    grep -q "static assertion failed.*offset of $1\|static_assert failed.*offset of $1" "$work/log"
}

for tree in $UCX_SOURCE_TREES; do
    release=$(version_of "$tree" major).$(version_of "$tree" minor).$(version_of "$tree" patch)
    name="UCX $release"
    note "$name: $tree"
    minor=$(version_of "$tree" minor)
    set --
    declared="the declarations of all series"
    if grep -q "^struct Layout_1_$minor " "$top_srcdir"/src/abi/layout_*.hpp; then
        set -- "-DLAYOUT_MINOR=$minor"
        declared="$declared and Layout_1_$minor"
    fi

    if compile "$tree" "$@" -DLAYOUT_PERTURB -fsyntax-only "$here/layout_check.cpp"; then
        fail "$name: an offset made wrong is noticed"
    elif ! caught "BaseIface::super" || { [ $# -gt 0 ] && ! caught "L::InternalOpsTable::ep_invalidate"; }; then
        fail "$name: the headers compile"
        continue
    else
        ok "$name: an offset made wrong is noticed"
    fi

    # UCX built with and without assertions.
    for assertions in -UENABLE_ASSERT -DENABLE_ASSERT=1; do
        if compile "$tree" "$@" "$assertions" -fsyntax-only "$here/layout_check.cpp"; then
            ok "$name $assertions: $declared"
        else
            fail "$name $assertions: $declared"
        fi
    done

    if ! compile "$tree" -o "$work/tree" "$here/layout_public.cpp"; then
        fail "$name: layout_public.cpp"
    elif "$work/tree" | diff "$work/installed.txt" - >"$work/log"; then
        ok "$name: public headers like the installed ones"
    else
        not_ok "$name: public headers like the installed ones" "$work/log"
    fi
done
done_testing
