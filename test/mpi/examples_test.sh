#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/examples, compiled as their first lines say, on the emulated devices, with every MPI of the
# distribution that is installed, two and four ranks.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

softcudart=$top_builddir/src/emu/softcudart
export LD_LIBRARY_PATH=$softcudart:$LD_LIBRARY_PATH
[[ -n ${CUDART_SONAME-} ]] || skip_case "ring" "configured without cuda_runtime_api.h"

# build MPI: in $work/MPI.
build() {
    local compiler line
    compiler=$(mpicxx_of "$1")
    mkdir "$work/$1" && cp "$top_srcdir"/contrib/examples/*.?pp "$work/$1" && cd "$work/$1" || exit 99
    for source in cg jacobi pair; do
        line=$(sed -n 's|^// *mpicxx \(.* -ldl\)$|\1|p' $source.cpp)
        # shellcheck disable=SC2086 # arguments
        "$compiler" $line ${CUDA_CFLAGS:-} || exit 99
    done
    if [[ -n ${CUDART_SONAME-} ]]; then # linked with the emulated library
        line=$(sed -n 's|^// *mpicxx \(.*\) -L[^ ]* -lcudart$|\1|p' ring.cpp)
        # shellcheck disable=SC2086 # arguments
        "$compiler" $line ${CUDA_CFLAGS:-} "$softcudart/$CUDART_SONAME" || exit 99
    fi
    cd - >/dev/null || exit 99
}

# told WHAT AWK-PROGRAM: the log is such that the program succeeds.
told() {
    if awk "$2" "$log"; then
        ok "$1"
    else
        not_ok "$1" "$log"
    fi
}

for mpi in "${mpis[@]}"; do
    build "$mpi"
    for number in $(numbers 2 4); do
        export UCX_GDR_STATS=$work/$mpi.$number
        ranks "$mpi" $number "$work/$mpi/jacobi" 64 50
        status=$?
        cat "$UCX_GDR_STATS" >>"$log"
        # Two rows over each border, 50 times.
        told "$mpi, $number ranks, jacobi: as the serial solution, by GPUDirect" "
            /largest difference from the serial solution: / { told = 1 }
            match(\$0, /gpudirect_bytes=[0-9]+/) { direct += substr(\$0, RSTART + 16, RLENGTH - 16) }
            END { exit !($status == 0 && told && direct >= ($number - 1) * 2 * 50 * 66 * 8) }"
        rm "$UCX_GDR_STATS"
        ranks "$mpi" $number "$work/$mpi/cg" 48
        status=$?
        cat "$UCX_GDR_STATS" >>"$log"
        # Two numbers of 8 bytes an iteration, there and back.
        told "$mpi, $number ranks, cg: it converges, and MPI adds up numbers in GPU memory" "
            match(\$0, /: [0-9]+ iterations/) { iterations = substr(\$0, RSTART + 2) + 0 }
            /residual, relative to the right side: / { told = 1 }
            match(\$0, /mpi_staged_bytes=[0-9]+/) { staged += substr(\$0, RSTART + 17, RLENGTH - 17) }
            END { exit !($status == 0 && told && iterations < 480 && staged >= $number * iterations * 2 * 16) }"
        if [[ -n ${CUDART_SONAME-} ]]; then
            rm "$UCX_GDR_STATS"
            ranks "$mpi" $number "$work/$mpi/ring" 10000
            status=$?
            cat "$UCX_GDR_STATS" >>"$log"
            # Each rank sends and receives 40,000 bytes as often as there are ranks.
            told "$mpi, $number ranks, ring: memory of cudaMalloc goes by GPUDirect" "
                /10000 elements round $number ranks in .* ms, 0 wrong/ { told = 1 }
                match(\$0, /gpudirect_bytes=[0-9]+/) { direct += substr(\$0, RSTART + 16, RLENGTH - 16) }
                END { exit !($status == 0 && told && direct >= $number * $number * 40000) }"
        fi
        unset UCX_GDR_STATS

        ranks "$mpi" $number "$work/$mpi/pair" 262144
        status=$?
        told "$mpi, $number ranks, pair: four sections of ten sizes" "
            / to / { ++sections }
            /^ +[0-9]+ / { ++lines; sane += \$2 > 0.01 && \$2 < 1e6 && \$3 > 0 && \$3 < 1e6 }
            END { exit !($status == 0 && sections == 4 && lines == 40 && sane == 40) }"
    done
done
done_testing
