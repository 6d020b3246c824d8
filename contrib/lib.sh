# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the scripts of contrib share: steps with one line of progress and a log each, and a build
# directory brought up to date. Sourced from the root of the source tree.

# shellcheck disable=SC2034 # used by those who source this
jobs=$(nproc)

fail() { echo "${0##*/}: $*" >&2; exit 1; }

# step WHAT LOG COMMAND...: one line; on failure the end of the log, its name, and the status.
step() {
    local what=$1 log=$2 start=$SECONDS status=0
    shift 2
    mkdir -p "$(dirname "$log")"
    printf '%-44s' "$what ..."
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [[ $status -eq 0 ]]; then
        echo "done ($((SECONDS - start)) s)"
    else
        echo "FAILED (status $status)"
        tail -n 25 "$log" | sed 's/^/    /'
        echo "    the whole log: $log"
    fi
    return "$status"
}

# Makes ./configure when it is missing or older than what it is made from.
bootstrap() {
    if [[ ! -x configure || -n $(find configure.ac Makefile.am src test contrib docs \
        \( -name configure.ac -o -name Makefile.am -o -name Makefile.inc \) -newer configure) ]]; then
        autoreconf -fi
    fi
}

# configure_in DIR [ARGUMENT]...: configures out of tree, again only when something changed.
configure_in() {
    local dir=$1 stamp
    shift
    # shellcheck disable=SC2046 # no argument contains a blank
    set -- "$@" $(contrib/install-deps --configure-args)
    stamp="$PWD $*"
    mkdir -p "$dir"
    if [[ ! -x $dir/config.status || configure -nt $dir/config.status ||
        $(cat "$dir/configured-with" 2>/dev/null) != "$stamp" ]]; then
        local root=$PWD
        (cd "$dir" && "$root/configure" "$@" && echo "$stamp" >configured-with)
    fi
}
