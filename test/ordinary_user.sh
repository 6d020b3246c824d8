# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# For tests of what users do: a script that root runs goes on as an ordinary user, with the limit of locked memory that
# distributions give one; the kernel spares root that limit, and permissions. Sourced before test/lib.sh. Where root
# cannot become another user, or that one cannot read the build, the script goes on as it is.

ordinary_user="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
if [ "$(id -u)" = 0 ] && $ordinary_user test -r "$top_builddir/src/emu/softhca/.libs/libsofthca.so" 2>/dev/null; then
    # shellcheck disable=SC3045 # every sh in use has it
    ulimit -l 8192
    exec $ordinary_user env HOME=/nonexistent "$0" "$@"
fi
