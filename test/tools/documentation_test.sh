#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is installed of the documentation: all pages and pictures, whose links lead to what is installed, too, the examples
# among that.
set -u

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

make -s -C "$top_builddir" DESTDIR="$work" docdir=/doc install-dist_docDATA install-nobase_dist_gdr_docsDATA \
    install-dist_gdr_examplesDATA >"$work/log" 2>&1 || not_ok "it is installed" "$work/log"
expect "each page and each picture is there" \
    "$(cd "$top_srcdir" && find README.md docs -name '*.md' -o -name '*.svg' | sort)" \
    "$(cd "$work/doc" && find README.md docs -type f | sort)"
find "$work/doc" -name '*.md' >"$work/pages"
expect "all links lead somewhere" "" "$(xargs "$top_srcdir/contrib/rules/links" <"$work/pages")"
expect "the examples are those of the source tree" "$(ls "$top_srcdir/contrib/examples")" "$(ls "$work/doc/contrib/examples")"
done_testing
