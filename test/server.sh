# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Servers of test programs, for their clients on this machine. Sourced; "preload", "port" and the
# directory "work" are set when serve is called.

listening() { grep -qi ":$(printf %04x "$port") [0:]* 0A" /proc/net/tcp /proc/net/tcp6; }

# serve COMMAND...: in the background, its process id in "server"; returns when it listens at the
# port, or after ten seconds.
serve() {
    env LD_PRELOAD="$preload" "$@" >"$work/server" 2>&1 &
    server=$!
    tries=0
    until listening || [ $tries = 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
