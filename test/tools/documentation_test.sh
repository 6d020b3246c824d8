#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What is installed of the documentation: all pages and pictures, whose links lead to what is installed, too, the examples
# among that; and each function of libucx-gdr has a manual page.
set -u

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

make -s -C "$top_builddir" DESTDIR="$work" docdir=/doc install-dist_docDATA install-nobase_dist_gdr_docsDATA \
    install-dist_gdr_examplesDATA >"$work/log" 2>&1 || not_ok "it is installed" "$work/log"
expect "each page and each picture is there" \
    "$(cd "$top_srcdir" && find README.md docs -name '*.md' -o -name '*.svg' -o -name '*.schema.json' | sort)" \
    "$(cd "$work/doc" && find README.md docs -type f | sort)"
find "$work/doc" -name '*.md' >"$work/pages"
expect "all links lead somewhere" "" "$(xargs "$top_srcdir/contrib/rules/links" <"$work/pages")"
expect "the examples are those of the source tree" "$(ls "$top_srcdir/contrib/examples")" "$(ls "$work/doc/contrib/examples")"

# ---- the manual pages of libucx-gdr

# Functions that are declared, or that a comment names.
functions() { grep -ohE '\b(ugdr_[a-z_]+|ucp_(create|destroy)_condition|ucp_device_[a-z_]+|ucp_prepare_transfers|ucp_release_preparations|MPIX_[A-Za-z_]+)\(' "$top_srcdir"/src/sync/ucx-gdr/* | tr -d '(' | sort -u; }
names() { grep -ohE '\b(UGDR|UCP_CONDITION)_[A-Z_]+ *[=,/]' "$top_srcdir"/src/sync/ucx-gdr/* | tr -d ' =,/' | sort -u; }

if [ "${GDR_SYNC:-yes}" = no ]; then
    skip_case "the manual pages of libucx-gdr" "this build has no libucx-gdr"
elif [ "${GDR_API_MANUAL:-yes}" = no ]; then
    skip_case "the manual pages of libucx-gdr" "no doxygen and python3 (configure)"
else
    pages=$work/man/man3
    make -s -C "$top_builddir" DESTDIR="$work" mandir=/man install-man3 >"$work/log" 2>&1 || not_ok "they are installed" "$work/log"
    expect "each function and each header has a manual page, and nothing else" \
        "$({ functions; printf '%s\n' mpix ucp_condition ucp_device ugdr ugdr_device ugdr_initiate ugdr_transfer; } | sort)" "$(cd "$pages" && printf '%s\n' *.3* | sed 's/\.3.*//' | sort)"
    functions | sed 's/$/()/' >"$work/calls"
    expect "functions that a page names are references" "" "$(grep -rFohf "$work/calls" "$pages")"
    sed 's/\\f.//g' "$pages"/* >"$work/text"
    expect "each enumerator is in one" "" "$(names | while read -r name; do grep -qwF "$name" "$work/text" || echo "$name"; done)"
    if command -v lexgrog >/dev/null; then
        expect "whatis understands them" "" "$(for page in "$pages"/*; do
            name=${page##*/}
            lexgrog "$page" | grep -qF ": \"${name%.3*} - " || echo "$name"
        done)"
        expect "man shows them without a warning" "" "$(for page in "$pages"/*; do man --warnings -l "$page" 2>&1 >/dev/null; done)"
    else
        skip_case "whatis understands them" "no lexgrog (man-db)"
    fi
fi
done_testing
