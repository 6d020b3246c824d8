#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is installed of the documentation: its links lead to what is installed, too, the examples among that.
set -u

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

make -s -C "$top_builddir" DESTDIR="$work" docdir=/doc install-dist_docDATA install-dist_gdr_docsDATA \
    install-dist_gdr_howtoDATA install-dist_performanceDATA install-dist_gdr_examplesDATA >"$work/log" 2>&1 || not_ok "it is installed" "$work/log"
find "$work/doc" -name '*.md' >"$work/pages"
check "README and the guides are there" test "$(wc -l <"$work/pages")" -gt 10
expect "all links lead somewhere" "" "$(xargs "$top_srcdir/contrib/rules/links" <"$work/pages")"
expect "a how-to page has 1,500 words at most" "" "$(wc -w "$work"/doc/docs/howto/*.md | awk '$1 > 1500 && $2 != "total"')"
expect "the examples are those of the source tree" "$(ls "$top_srcdir/contrib/examples")" "$(ls "$work/doc/contrib/examples")"
done_testing
