#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr doctor --pair" on the emulated devices: transfers between two processes of this host and, where there are
# namespaces, with another host name. What follows from figures of hardware is in test/unit/doctor_pair_test.cpp.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
[[ $GDR_DOCTOR == yes ]] || skip_all "ucx-gdr was built without the doctor"
[[ ! -e /sys/class/infiniband ]] || skip_all "the HCA of this machine is no emulated one"
unset LD_PRELOAD LD_LIBRARY_PATH GDR_EMULATION UCX_GDR_IPC
cd "$work" || exit 99

# pair [ARGUMENT]...: leaves the report in $work/said, and the status.
pair() {
    timeout -k 5 200 "$tool" doctor --verbose --pair "$@" >"$work/said" 2>"$work/progress" </dev/null
    status=$?
}
# finds NAME WORD ID TEXT: the finding has the word in front of it, and the text.
finds() {
    if [[ $(awk -v id="$3" '$2 == id { print $1; exit }' "$work/said") == "$2" ]] && grep -qF -e "$4" "$work/said"; then
        ok "$1"
    else
        not_ok "$1" "$work/said" "$work/progress"
    fi
}
launcher() { # SCRIPT: for --launcher, without the name of the host
    printf '#!/bin/sh\nshift\n%s\n' "$1" >"$work/launcher"
    chmod +x "$work/launcher"
}

section "two processes"
pair localhost
expect "emulated devices are not the real ones" 2 "$status"
check "the verdict comes first" grep -q "^1:ucx-gdr doctor .*, host $(uname -n) with $(uname -n): no GPUDirect RDMA" \
    <(grep -n ^ "$work/said")
finds "both sides connect" ok pair.connect "UCX connects them"
finds "every byte is right" ok pair.transfer "every byte of 54 transfers is right"
finds "memory of GPUs is registered" ok pair.register "memory of hosts and GPUs is registered"
finds "there is no verdict on links" skipped pair.bandwidth "emulated devices: figures say nothing"
for memory in host device; do
    check "figures of $memory memory" grep -qE "$memory +memory: 8 bytes [0-9.]+ us, [0-9.]+ GB/s there" "$work/said"
done
check "it is said that they say nothing" grep -q "these figures say nothing of hardware" "$work/said"
check "progress is shown" grep -q "device memory: checked transfers" "$work/progress"
pair localhost --json
expect "JSON: the status" "$status" "$(sed -n 's/^  "exit": \([0-9]\),*$/\1/p' "$work/said")"
check "JSON: GPU memory was not staged" [ "$(sed -n 's/^ *"gpudirect_bytes": \([0-9]*\),*$/\1/p' "$work/said")" -gt 1000000 ]
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    check "JSON: it is as the schema says" /usr/bin/python3 -c 'import json, jsonschema, sys
jsonschema.validate(*(json.load(open(name)) for name in sys.argv[1:]))' \
        "$work/said" "$top_srcdir/docs/reference/doctor-job.schema.json"
fi
# A put takes longer than the stream of puts is to: it is the only one.
SOFTHCA_BANDWIDTH_GBPS=0.1 pair localhost --json
check "a slow link: no more puts than fit into the time" [ "$(sed -n 's/^ *"gpudirect_bytes": \([0-9]*\),*$/\1/p' "$work/said")" -lt 20000000 ]
TIMEFORMAT='%U %S'
used=$({ time sleep 5 | "$tool" run --emulate-hca --emulate-gpu UCX_TLS=gdr "$top_builddir/src/doctor/peer/ucx-gdr-peer" >"$work/peer" 2>&1; } 2>&1)
check "a side that waits leaves its processor to others" awk -v used="$used" 'BEGIN { split(used, of); exit of[1] + of[2] > 2.5 }'
check "a side that waits is ready" grep -q "^ucx-gdr-peer: ok" "$work/peer"
SOFTHCA_GPU_DIRECT=none pair localhost
finds "an HCA that takes no GPU memory" ERROR pair.register "GPU memory is staged: it is copied through host memory"
expect "an HCA that takes no GPU memory: that comes first" pair.register "$(awk '$1 == "ERROR" { print $2; exit }' "$work/said")"
check "an HCA that takes no GPU memory: what gdr says of it" grep -q "^ *gdr: GPU 0 .*: no GPUDirect RDMA" "$work/said"
UCX_TLS=nonsense pair localhost
finds "a UCX that does not start" ERROR pair.connect "no transfers by UCX's own choice of devices"
expect "a UCX that does not start: programs do not run" 3 "$status"

section "another host"
launcher 'exit 7'
pair elsewhere --launcher "$work/launcher"
expect "it is not reached: the status" 64 "$status"
check "it is not reached: it says so" grep -q "the process on elsewhere ended" "$work/progress"
pair localhost --job
expect "a pair is no job" 64 "$status"
pair localhost true
expect "a pair has no COMMAND" 64 "$status"
# shellcheck disable=SC2016 # expands there
launcher 'exec env UCX_TLS=nonsense "$@"'
pair elsewhere --launcher "$work/launcher"
finds "a variable that differs" WARNING job.env "UCX_TLS differs"
finds "a side that does not start" ERROR pair.connect "no transfers by"
other=$(other_ucx)
# shellcheck disable=SC2016 # expands there
launcher "exec env LD_LIBRARY_PATH=$other \"\$@\""
pair elsewhere --launcher "$work/launcher"
finds "two versions of UCX" WARNING launch.mixed "$other/libucp.so.0"
if unshare --map-root-user --uts true 2>/dev/null; then
    # shellcheck disable=SC2016 # expands there
    launcher 'exec unshare --map-root-user --uts sh -c '\''hostname gdr-b && exec "$@"'\'' sh "$@"'
    UCX_TLS=tcp pair elsewhere --launcher "$work/launcher"
    check "nothing is emulated between hosts" grep -q "^1:ucx-gdr doctor .* with gdr-b: " <(grep -n ^ "$work/said")
    finds "nothing is emulated between hosts: there is no HCA" ERROR hca.none "no RDMA device"
    check "nothing is emulated between hosts: the command does not say otherwise" fails grep -q "hca.emulated.*emulates" "$work/said"
    finds "UCX's other transports are tried" ok pair.transfer "every byte of 18 transfers is right"
else
    skip_case "nothing is emulated between hosts" "no namespaces of host names"
fi

section "the HCAs of another machine"
if unshare -m true 2>/dev/null || unshare -rm true 2>/dev/null; then
    "$top_srcdir/test/machines/dump" two_socket_a100 "$work/machine" || exit 99
    timeout -k 5 300 "$tool" run --machine="$work/machine" "$tool" doctor --pair localhost --json >"$work/said" 2>"$work/progress" </dev/null
    expect "each port is tried" $'mlx5_0:1\nmlx5_1:1' "$(sed -n 's/^ *"near": "\(.*\)",*$/\1/p' "$work/said")"
    expect "each port: every transfer was made" $'54\n54' "$(sed -n 's/^ *"transfers": \([0-9]*\),*$/\1/p' "$work/said")"
else
    skip_case "each port is tried" "no mount namespaces"
fi
done_testing
