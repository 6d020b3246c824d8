#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The programs of pages in docs, compiled as these say, on the emulated devices: they print what the pages promise.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

softcudart=$top_builddir/src/emu/softcudart
[[ -n ${CUDART_SONAME-} ]] || skip_all "configured without cuda_runtime_api.h"
export LD_LIBRARY_PATH=$softcudart:$top_builddir/src/sync/.libs:$LD_LIBRARY_PATH

# program PAGE FILE: prints the program that a reader of the page saves as FILE.
program() { awk -v file="$2" 'index($0, "`" file "`") { wanted = 1 } /^```$/ && inside { exit } inside; /^```c$/ && wanted { inside = 1 }' \
    "$top_srcdir/docs/$1.md"; }

# build MPI FILE: to $work/MPI.FILE, by the C compiler of that MPI.
build() {
    local compiler
    compiler=$(mpicxx_of "$1")
    # shellcheck disable=SC2086 # arguments
    "${compiler/mpicxx/mpicc}" "$work/$2" -o "$work/$1.$2" ${CUDA_CFLAGS:-} -I"$top_srcdir/src/sync" \
        -L"$top_builddir/src/sync/.libs" -lucx-gdr -lucp -lucs "$softcudart/$CUDART_SONAME" \
        -Wl,-rpath-link,"$softcuda" >"$work/compiler" 2>&1
}

# prints PAGE FILE LINE...: the program of the page says these, in any order.
prints() {
    local page=$1 file=$2 mpi
    shift 2
    program "$page" "$file" >"$work/$file"
    for mpi in "${mpis[@]}"; do
        if ! build "$mpi" "$file"; then
            not_ok "docs/$page.md: $file, $mpi, is compiled" "$work/compiler"
            continue
        fi
        ranks "$mpi" 2 "$work/$mpi.$file"
        expect "docs/$page.md: $file, $mpi" "$(printf '%s\n' "$@")" "$(grep '^rank ' "$log" | sort)"
    done
}

prints tutorial/mpi first.c "rank 0 has 1 2 3 4" "rank 1 has 1 2 3 4"
prints tutorial/gpu-triggered-send triggered.c "rank 0: a" "rank 1: a"
prints howto/mpi-on-streams ring.c "rank 0 got 1 from its neighbour" "rank 1 got 0 from its neighbour"
done_testing
