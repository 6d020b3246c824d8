#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# 100,000 calls of MPI on GPU memory, of many kinds, and failing ones, with every MPI that is installed: the second half
# makes the process no larger (by 2 MiB, 40 bytes a call) than the same calls on host memory without the MPI layer (Open MPI grows by itself).
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# grown MPI host|cuda CALLS: prints how many KiB and descriptors the rank that grew most has more.
grown() {
    ranks "$1" 2 "$top_builddir/test/mpi/mpi_footprint.$1" "$2" "$3" || return
    awk '/KiB and/ { if ($3 > kib) kib = $3; if ($6 > files) files = $6 } END { print kib + 0, files + 0 }' "$log"
}

for mpi in "${mpis[@]}"; do
    bare=$(GDR_PRELOAD=$softhca:$module grown "$mpi" host 100000) && staged=$(grown "$mpi" cuda 100000) || {
        echo "FAILED: $mpi"
        head -n 30 "$log"
        failed=1
        continue
    }
    echo "$mpi: KiB and descriptors more: $bare on host memory without the layer, $staged on GPU memory with it"
    [[ ${staged% *} -le $((${bare% *} + 2048)) && ${staged#* } -le ${bare#* } ]] || { echo "FAILED: $mpi: it grows"; failed=1; }
done
exit $failed
