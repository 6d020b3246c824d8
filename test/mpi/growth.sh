# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What growth.hpp prints, of 100,000 calls or fewer: on GPU memory with the MPI layer a process grows no more than on host memory
# without it (by 2 MiB, 40 bytes a call; Open MPI grows by itself), and by no more than 16 descriptors: a call that leaks one shows
# more than a hundred, and the emulated HCA opens a peer's pipe when it first wakes it, whenever that is. Sourced after environment.sh.

# most_grown: KiB and descriptors of the rank that grew most, by the log of the latest ranks.
most_grown() { awk '/KiB and/ { if ($3 > kib) kib = $3; if ($6 > files) files = $6 } END { print kib + 0, files + 0 }' "$log"; }

# grows_alike MPI RUN [ARGUMENT]...: RUN host|cuda [ARGUMENT]... makes the calls.
grows_alike() {
    local mpi=$1 run=$2 bare staged
    if ! GDR_PRELOAD=$emulated_hca:$module "$run" host "${@:3}" || ! bare=$(most_grown) || ! "$run" cuda "${@:3}" || ! staged=$(most_grown); then
        not_ok "$mpi: repeated calls" "$log"
        return
    fi
    ok "$mpi: repeated calls"
    note "$mpi: KiB and descriptors more: $bare on host memory without the layer, $staged on GPU memory with it"
    check "$mpi: the memory of the process does not grow" [ "${staged% *}" -le $((${bare% *} + 2048)) ]
    check "$mpi: nor its descriptors" [ "${staged#* }" -le 16 ]
}
