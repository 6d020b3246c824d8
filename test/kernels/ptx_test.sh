#!/bin/bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The kernels' PTX, assembled by CUDA's own assembler for the GPUs it knows: without spilled registers,
# and without a fused multiplication and addition, which would round otherwise than the CPU does.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"
ptxas=$(command -v ptxas || ls "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" 2>/dev/null)
shopt -s nullglob
modules=("${top_builddir:-.}"/src/kernels/*.ptx "${top_builddir:-.}"/src/sync/*.ptx)
if [ -z "$ptxas" ] || [ "${#modules[@]}" -eq 0 ]; then
    skip_all "no ptxas, or built without kernels"
fi
assembled=0
for module in "${modules[@]}"; do
    name=${module##*/}
    expect "$name: no arithmetic that may be contracted" "" \
        "$(grep -nE '^[[:space:]]*fma\.|[[:space:]](add|mul)\.f(32|64)' "$module")"
    for gpu in sm_70 sm_75 sm_80 sm_90 sm_100; do
        "$ptxas" --help | grep -q "'$gpu'" || continue
        check "$name for $gpu: it is assembled" "$ptxas" -v -arch "$gpu" "$module" -o /dev/null >"$work/said" 2>&1
        expect "$name for $gpu: no registers are spilled" "" "$(grep -E '[1-9][0-9]* bytes (stack|spill)' "$work/said")"
        cat "$work/said"
        assembled=$((assembled + 1))
    done
done
check "some are assembled" [ "$assembled" -gt 0 ]
done_testing
