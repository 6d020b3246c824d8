#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What ucx-gdr says where it was configured without a part: of what it would need, what, why and what to do.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

# without PART...: this build's command, as of a build without them.
without() {
    cp "$tool" "$work/ucx-gdr"
    sed -i "s|^src=.*|here='${tool%/*}' src='${tool%/*/*}'|" "$work/ucx-gdr"
    for part; do sed -i "s/^with_$part='.*'/with_$part='no'/" "$work/ucx-gdr"; done
}
said() { "$work/ucx-gdr" "$@" 2>&1 </dev/null; }

without emulation
why="this ucx-gdr was built without the emulated HCA and GPUs (configure --disable-emulation). Use one that was built with them"
for asked in "run --emulate-hca true" "env --emulate-gpu" "info --emulate-hca" hca; do
    what=$(echo "$asked" | sed 's/^[a-z]* \(--[a-z-]*\).*/\1/')
    # shellcheck disable=SC2086 # a list of words
    answer=$(said $asked)
    expect "without the emulation: $asked" "2 ucx-gdr: $what: $why" "$? $answer"
done
expect "run goes on, and preloads no emulation" "$module${mpi_layer:+:$mpi_layer}" \
    "$("$work/ucx-gdr" run printenv LD_PRELOAD 2>/dev/null)"
expect "a missing HCA is told of" "$([ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || echo told)" \
    "$(said run true | grep -q '^ucx-gdr: no usable HCA, and this build emulates none: ' && echo told)"
expect "info has no emulated device" "" "$(said info | grep -E '^verdict.*emulated|ucx-gdr run emulates')"
expect "info says that there is none" 1 "$(said info | grep -c '^ *built without the emulation$')"
expect "so does the help" 1 "$(said --help | grep -c '^This ucx-gdr was built without the emulation')"

# An installation without the package of the emulation.
without
sed -i 's|^    softhca=.*|    softhca=/nonexistent/libsofthca.so|' "$work/ucx-gdr"
expect "where the emulation is not installed it is not to be had" \
    "2 ucx-gdr: --emulate-hca: the emulated HCA and GPUs are not installed (package ucx-gdr-emulation): there is no /nonexistent/libsofthca.so" \
    "$(answer=$(said run --emulate-hca true); echo "$? $answer")"
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    expect "run says why the HCA is not usable, and goes on" \
        "ucx-gdr: no usable HCA, and the emulation is not installed (package ucx-gdr-emulation): no RDMA device
fine" "$(said run echo fine | sed -n '/no usable HCA/s/: the kernel.*//; /HCA\|fine/p')"
    [ "$GDR_DOCTOR" != yes ] ||
        expect "info says it, too" "no RDMA device" "$(said info | sed -n 's/^ERROR *hca.none *//p' | sed 's/[:,].*//')"
fi

# What is switched off.
without
expect "--no-emulation" "$module${mpi_layer:+:$mpi_layer}" "$("$work/ucx-gdr" run --no-emulation printenv LD_PRELOAD 2>/dev/null)"
expect "GDR_EMULATION=no" "$module${mpi_layer:+:$mpi_layer}" "$(GDR_EMULATION=no "$work/ucx-gdr" run printenv LD_PRELOAD 2>/dev/null)"
expect "but for what is asked for by name" "$emulated_hca:$module${mpi_layer:+:$mpi_layer}" \
    "$(GDR_EMULATION=no "$work/ucx-gdr" run "$emulate_hca" printenv LD_PRELOAD 2>/dev/null)"

without doctor
expect "without the doctor: what was missing" "64 ucx-gdr: doctor: this ucx-gdr was built without it: CLI11 and \
nlohmann_json were missing (libcli11-dev nlohmann-json3-dev, cli11-devel json-devel)" "$(answer=$(said doctor); echo "$? $answer")"
expect "without the doctor: the help says so" 1 "$(said --help | grep -c '^This ucx-gdr was built without ucx-gdr doctor')"

without mpi
expect "without the MPI layer none is preloaded" "$emulated_hca:$module" \
    "$("$work/ucx-gdr" run "$emulate_hca" --emulate-gpu printenv LD_PRELOAD 2>/dev/null)"
expect "and nothing is told to Open MPI of components" "" \
    "$(OMPI_COMM_WORLD_RANK=0 "$work/ucx-gdr" env "$emulate_hca" --emulate-gpu | grep component_path)"
expect "the help says so" 1 "$(said --help | grep -c '^This ucx-gdr was built without the layer for MPI')"

without sync
expect "without libucx-gdr the help says so" 1 "$(said --help | grep -c '^This ucx-gdr was built without libucx-gdr')"
done_testing
