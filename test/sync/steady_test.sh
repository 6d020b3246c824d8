#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The trigger path of libucx-gdr in the steady state: allocations and locks are counted by sync_steady itself, system
# calls of the library's thread by strace.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
programs=$top_builddir/test/sync
run sync_steady 2000
[ $failed = 0 ] || exit 1
case ${GDR_SANITIZERS:-none} in
none) ;;
*)
    echo "system calls are not counted under a sanitizer"
    exit 0
    ;;
esac
strace -o /dev/null true 2>/dev/null || {
    echo "system calls are not counted: no strace, or it may not trace"
    exit 0
}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
timeout 120 strace -ff -o "$work/trace" "$programs/sync_steady" 500 >"$work/log" || exit 1
thread=$(sed -n 's/^thread \([0-9]*\):.*/\1/p' "$work/log")
calls=$(grep -cv '^+++' "$work/trace.$thread")
echo "$calls system calls of the library's thread, its start included"
if [ "$calls" -gt 40 ]; then
    sort "$work/trace.$thread" | uniq -c | sort -n | tail
    echo "FAILED: triggers make system calls"
    exit 1
fi
