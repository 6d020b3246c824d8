#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Which HCAs carry the data of each GPU on the machines of this directory: with "ucx-gdr run --pin" those that the rule
# gives it; and by UCP's own choice from UCX 1.16 on, also where it is not what one wants, as far as machines have such an
# expectation ("UCP 0 mlx5_0:1").
set -u

# shellcheck source=test/machines/environment.sh
. "$top_srcdir/test/machines/environment.sh"
# shellcheck source=test/server.sh
. "$top_srcdir/test/server.sh"
unshare -m true 2>/dev/null || unshare -rm true 2>/dev/null || skip_all "no mount namespaces"
command -v ucx_perftest >/dev/null || skip_all "no ucx_perftest (package ucx-utils)"

# What runs on the machine: a server and a client that sends to it, for whose bytes we look. Nobody listens at first.
# shellcheck disable=SC2016 # the shell there expands it
pair='
ucx_perftest -p "$0" >/dev/null 2>&1 &
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.5
    ucx_perftest -p "$0" localhost -t ucp_put_bw -m cuda -s 1048576 -n 10 -w 0 && wait && exit
done
kill $!
exit 1'

# carriers GPU [OPTION]...: the ports through which a process sends from the memory of this GPU.
carriers() {
    next_port
    OMPI_COMM_WORLD_LOCAL_RANK=$1 timeout -k 5 200 "$tool" run --machine="$dump" "${@:2}" \
        env CUDA_VISIBLE_DEVICES="$1" SOFTHCA_STATS=1 UCX_TLS=gdr UCX_GDR_IPC=n sh -c "$pair" "$port" >"$work/said" 2>&1 </dev/null ||
        echo "status $?: $(grep -v '^softhca' "$work/said" | tail -n 3)"
    sed -n 's/^softhca //p' "$work/said" | tr ' ' '\n' | awk -F = '
        sub(/^bytes_/, "") && !/_device/ && $2 >= 1048576 { line = line (line == "" ? "" : " ") $1 ":1" }
        END { print line }'
}

for machine in "$top_srcdir"/test/machines/*.machine; do
    machine=${machine##*/}
    machine=${machine%.machine}
    expected=$top_srcdir/test/machines/$machine.expected
    dump_of "$machine"
    # Without ports there is nothing to see.
    sed -n 's/^GPU \([0-9]*\) \(.*\),.*/\1 \2/p' "$expected" >"$work/served"
    while read -r gpu ports; do
        # GPUs of a machine are alike: not all of them, since each takes seconds.
        extended || [[ $gpu == [15] || $machine == gh200 ]] || continue
        found=$(carriers "$gpu" --pin)
        # Of several ports UCP may take one.
        [[ -z $found || $(tr ' ' '\n' <<<"$found" | grep -vxF "${ports// /$'\n'}") ]] || found=$ports
        expect "$machine, GPU $gpu pinned" "$ports" "$found"
    done <"$work/served"
    [[ $(ucx_minor) -ge 16 ]] || continue
    sed -n 's/^UCP //p' "$expected" >"$work/by_ucp"
    while read -r gpu ports; do
        expect "$machine, GPU $gpu by UCP" "$ports" "$(carriers "$gpu")"
    done <"$work/by_ucp"
done
done_testing
