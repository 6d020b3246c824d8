#!/bin/bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The kernels' PTX, assembled by CUDA's own assembler for the GPUs it knows: without spilled registers,
# and without a fused multiplication and addition, which would round otherwise than the CPU does.
set -u
ptxas=$(command -v ptxas || ls "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" 2>/dev/null)
shopt -s nullglob
modules=("${top_builddir:-.}"/src/kernels/*.ptx "${top_builddir:-.}"/src/sync/*.ptx)
if [ -z "$ptxas" ] || [ "${#modules[@]}" -eq 0 ]; then
    echo "skipped: no ptxas, or built without kernels"
    exit 77
fi
failed=0
assembled=0
for module in "${modules[@]}"; do
    if grep -nE '^[[:space:]]*fma\.|[[:space:]](add|mul)\.f(32|64)' "$module"; then
        echo "FAIL: $module: arithmetic that may be contracted"
        failed=1
    fi
    for gpu in sm_70 sm_75 sm_80 sm_90 sm_100; do
        "$ptxas" --help | grep -q "'$gpu'" || continue
        if ! said=$("$ptxas" -v -arch "$gpu" "$module" -o /dev/null 2>&1); then
            echo "FAIL: $module for $gpu: $said"
            failed=1
        elif grep -E '[1-9][0-9]* bytes (stack|spill)' <<<"$said"; then
            echo "FAIL: $module for $gpu: registers are spilled"
            failed=1
        fi
        assembled=$((assembled + 1))
    done
done
echo "$assembled assemblies of ${#modules[@]} modules"
[ "$failed" -eq 0 ] && [ "$assembled" -gt 0 ]
