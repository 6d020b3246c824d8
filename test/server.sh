# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Servers of test programs, for their clients on this machine. To be sourced; "preload" and the directory "work" must be
# set when serve is called.

port=$((20000 + $$ % 12000)) # below those that systems give to clients

# The next port on which nobody listens, so that concurrent tests do not collide.
next_port() {
    port=$((port + 1))
    while listening; do port=$((port + 1)); done
}

listening() { grep -qi ":$(printf %04x "$port") [0:]* 0A" /proc/net/tcp /proc/net/tcp6; }

# serve COMMAND...: starts it in the background, with its process id in "server"; returns when it listens on the port,
# or after ten seconds.
serve() {
    env LD_PRELOAD="$preload" "$@" >"$work/server" 2>&1 &
    server=$!
    tries=0
    until listening || [ $tries = 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
