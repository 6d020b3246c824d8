#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The manual pages, the reference's page of variables, the shells' completion and ucx-gdr.pc say what the command and the
# module know.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

tools=$top_builddir/src/tools
"$tool" --help >"$work/help"
help_options() { grep -oE -- '--[a-z-]+' "$work/help" | sort -u; }
without_markup() { sed 's/\\f.//g; s/\\-/-/g; s/\\e/\\/g' "$1"; }

# ---- the command

commands() { sed -n 's/^[U ][sage: ]*ucx-gdr \([a-z][a-z]*\).*/\1/p' "$work/help" | sort -u; }
expect "the help names every option and command that there is" "$(
    {
        sed -n 's/^ *\(--[a-z][a-z-]*\)\(=\*\)*\( | [-=a-z]*\)*) .*/\1/p' "$tool" "$tools/setup"
        [ "$GDR_DOCTOR" = no ] || "$tool" doctor --help | grep -oE -- '--[a-z]+'
    } | sort -u
    sed -n '/^case $command in/,$ s/^ *\([a-z][a-z]*\)) .*/\1/p
        s/^if \[ "$command" = \(.*\) \].*/\1/p' "$tool" | sort
)" "$(help_options; commands)"
expect "so does the manual page" "" "$(for word in $(help_options; commands); do
    without_markup "$tools/ucx-gdr.1" | grep -qwF -e "$word" || echo "$word"
done)"
without_markup "$tools/ucx-gdr.1" | sed -n 's/^\.B //p' >"$work/tags"
expect "where each stands alone in front of what it does" "" \
    "$(grep -vE '^(--[a-z-]+(=[a-zA-Z0-9]+)?|ucx-gdr( [a-z]+)?( (--[a-z|-]+|\[[A-Z]+\]\.\.\.|\[[a-z|-]+\]|[A-Z]+|\|))*)$' "$work/tags")"

# ---- variables

"$tool" run --emulate-hca --emulate-gpu ucx_info -f >"$work/ucx_info" 2>&1
shown() { sed -n "s/^UCX_$1_\([A-Z_]*\)=.*/\1/p" "$work/ucx_info" | sort -u; }
without_markup "$tools/ucx-gdr.7" | sed -n 's/^UCX_GDR_\([A-Z_]*\)=.*/\1/p' | sort >"$work/page"
expect "the page of the variables has none that UCX does not show" "" "$(shown GDR | comm -13 - "$work/page")"
expect "UCX shows besides what each transport of its own has" "" "$(for name in $(shown GDR | comm -23 - "$work/page"); do
    shown TCP | grep -qx "${name#*_}" || echo "$name"
done)"

# The reference: what UCX reads is made of the same tables; the others are those that the sources read.
reference=$top_srcdir/docs/reference/variables.md
expect "the reference has the variables of UCX with their help (make variables-page)" \
    "$("$top_builddir/src/plugin/variables" --markdown)" \
    "$(sed -n '/^<!-- generated/,/^<!-- end of what/p' "$reference" | sed '1d;$d')"
expect "and all others that are read" "$({
    grep -rhoE '"SOFT(HCA|MLX5|CUDA|GDRCOPY)_[A-Z0-9_]+"' "$top_srcdir/src/emu"
    grep -rhoE 'getenv\("(GDR|UGDR)_[A-Z_]+"' "$top_srcdir/src"
    grep -oE '\$\{GDR_[A-Z_]+' "$top_srcdir/src/tools/ucx-gdr.in"
} | grep -oE '(SOFT|GDR|UGDR)[A-Z0-9_]*_[A-Z0-9_]+' | sort -u)" "$(
    sed -n 's/^### //p' "$reference" | grep -v '^UCX_' | sort)"

# Each program beside the command is in a package.
expect "Debian and RPM have the programs that are installed beside the command" "" "$(
    sed -n 's|^pkglibexec_PROGRAMS += %reldir%/||p' "$top_srcdir"/src/*/Makefile.inc "$top_srcdir"/src/*/*/Makefile.inc |
        while read -r program; do
            for list in "contrib/debian/*.install" contrib/packages/ucx-gdr.spec.in; do
                # shellcheck disable=SC2086 # a pattern of files
                (cd "$top_srcdir" && grep -qE "ucx-gdr/$program\$" $list) || echo "$list: $program"
            done
        done)"

# The pages of a library's functions are where its header is: in the packages for development.
expect "Debian's package of the headers has the functions' pages" "libuct-gdr-dev.install:usr/share/man/man3" \
    "$(cd "$top_srcdir/contrib/debian" && grep -E 'man3|share/man$' -- *.install)"
expect "so has that of RPM" "%files devel" "$(awk '/^%files/ { part = $0 } /man3/ { print part }' \
    "$top_srcdir/contrib/packages/ucx-gdr.spec.in")"

# ---- completion

if bash=$(command -v bash); then
    # The words for the last of the arguments.
    cat >"$work/complete" <<'EOF'
. "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ucx_gdr
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}" | sort
EOF
    completed() { "$bash" "$work/complete" "$tools/bash/ucx-gdr" "$tool" "$@"; }
    offered() { for word in $(commands); do completed "$word" --; done; completed --; }
    expect "bash completes the commands" "$(commands)" "$(completed "" | grep -v '^-')"
    expect "and all options" "$(help_options)" "$(offered | sort -u)"
    expect "those of the command alone" "" "$(completed hca --)"
    expect "then the program to run" env "$(completed run --emulate-hca en | grep -x env | uniq)"
fi
! command -v zsh >/dev/null ||
    expect "zsh reads its completion" "" "$(zsh -n "$tools/zsh/_ucx-gdr" 2>&1)"

# ---- pkg-config

pc() { PKG_CONFIG_PATH=$tools pkg-config "$@" ucx-gdr; }
if command -v pkg-config >/dev/null; then
    expect "pkg-config: the version" "$("$tool" --version)" "ucx-gdr $(pc --modversion)"
    libdir=$(sed -n "s/^libdir='\(.*\)'/\1/p" "$tool")
    expect "pkg-config: what to preload" "$libdir/libuct_gdr.so.0" "$(pc --variable=preload)"
    expect "pkg-config: the directory of plugins" "$libdir/ucx-gdr/plugins" "$(pc --variable=pluginsdir)"
fi

done_testing
