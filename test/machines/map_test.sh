#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The emulation of the machines of this directory: which HCAs serve which GPU, as the transport prints it there.
set -u

# shellcheck source=test/machines/environment.sh
. "$top_srcdir/test/machines/environment.sh"
unshare -m true 2>/dev/null || unshare -rm true 2>/dev/null || skip_all "no mount namespaces"

# "GPU 0 mlx5_0:1, same switch": GPUs are printed by their addresses, in the order of which they have numbers.
map() {
    UCX_LOG_LEVEL=info timeout -k 5 120 "$tool" run --machine="$dump" "$ucx_info" -d >"$work/said" 2>&1
    sed -n 's/.*gdr: GPU [0-9a-f:.]*: \(.*\) (\(.*\))$/\1, \2/p' "$work/said" | awk '{ print "GPU " NR - 1 " " $0 }'
}
# Without ports there is nothing to print.
expected_map() { grep '^GPU .*,' "$top_srcdir/test/machines/$machine.expected"; }

for machine in "$top_srcdir"/test/machines/*.machine; do
    machine=${machine##*/}
    machine=${machine%.machine}
    dump_of "$machine"
    expect "$machine" "$(expected_map)" "$(map)"
done

dump_of dgx_h100
UCX_NET_DEVICES=mlx5_4:1 UCX_LOG_LEVEL=info "$tool" run --machine="$dump" "$ucx_info" -d >"$work/said" 2>&1
expect "UCX_NET_DEVICES: no other port" 0 "$(grep 'gdr: GPU' "$work/said" | grep -vc ': mlx5_4:1 (')"
check "UCX_NET_DEVICES: it is another reason" grep -q 'GPU 0000:1b:00.0: mlx5_4:1 (same NUMA node)' "$work/said"
UCX_LOG_LEVEL=warn "$tool" run --machine="$dump" "$ucx_info" -d >"$work/said" 2>&1
check "it is only printed at info" fails grep -q 'gdr: GPU' "$work/said"
"$tool" run --machine="$work" true >"$work/said" 2>&1
expect "what is no dump: the status" 2 $?
check "what is no dump: it says so" grep -q "is not what ucx-gdr doctor --dump writes" "$work/said"
done_testing
