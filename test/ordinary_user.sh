# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# For tests of what users do. A script that root runs continues as an ordinary user, with the limit of locked memory
# that distributions set; the kernel exempts root from that limit and from permissions. To be sourced before
# test/lib.sh. If root cannot become another user, or that user cannot read the build, the script continues unchanged.

ordinary_user="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
if [ "$(id -u)" = 0 ] && $ordinary_user test -r "$top_builddir/src/emu/softhca/.libs/libsofthca.so" 2>/dev/null; then
    # shellcheck disable=SC3045 # every sh in use has it
    ulimit -l 8192
    exec $ordinary_user env HOME=/nonexistent "$0" "$@"
fi
