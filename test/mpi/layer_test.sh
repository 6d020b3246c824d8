#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The MPI layer on the emulated devices, with every MPI that is installed: threads, 10,000 reductions in constant memory
# (MPICH), messages that UCX does not carry, large forms, a PMPI tool in front of it and behind, and what applications ask.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# Counts the calls of MPI_Allreduce that pass it.
cat >"$work/tool.c" <<'END_OF_TOOL'
#include <mpi.h>
#include <stdio.h>
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    fprintf(stderr, "tool: MPI_Allreduce\n");
    return PMPI_Allreduce(in, out, count, type, op, comm);
}
END_OF_TOOL
cat >"$work/query.c" <<'END_OF_QUERY'
#include <mpi.h>
int MPIX_Query_cuda_support(void);
int main(void)
{
    MPI_Init(0, 0);
    const int support = MPIX_Query_cuda_support();
    MPI_Finalize();
    return support ? 0 : 3;
}
END_OF_QUERY
# Past the layer.
cat >"$work/handle.c" <<'END_OF_HANDLE'
#include <dlfcn.h>
#include <mpi.h>
int main(void)
{
    Dl_info library;
    MPI_Init(0, 0);
    dladdr(dlsym(RTLD_DEFAULT, "MPI_Get_version"), &library);
    int (*query)(void) = (int (*)(void))dlsym(dlopen(library.dli_fname, RTLD_NOW), "MPIX_Query_cuda_support");
    const int support = query();
    MPI_Finalize();
    return support ? 3 : 0;
}
END_OF_HANDLE
cat >"$work/ext.c" <<'END_OF_EXT'
#include <mpi.h>
#include <mpi-ext.h>
#if !OMPI_HAVE_MPI_EXT_CUDA || !MPIX_CUDA_AWARE_SUPPORT
#error "no CUDA support"
#endif
int main(void)
{
    MPI_Init(0, 0);
    const int support = MPIX_Query_cuda_support();
    MPI_Finalize();
    return support ? 0 : 3;
}
END_OF_EXT
cat >"$work/gpus.c" <<'END_OF_GPUS'
#include <mpi.h>
int main(void)
{
    int cuda = 0, hip = 1;
    MPI_Init(0, 0);
    MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &cuda);
    MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &hip);
    MPI_Finalize();
    return cuda && !hip ? 0 : 3;
}
END_OF_GPUS

kernels=$(sed -n "s/^KERNEL_CLANG = //p" "$top_builddir/Makefile")
# By which the layer finds an MPI whose ABI it does not know.
check "libunknown.so is compiled" cc -shared -fPIC -x c - -o "$work/libunknown.so" <<'END_OF_UNKNOWN'
int PMPI_Get_library_version(char* text, int* length);
int PMPI_Get_library_version(char* text, int* length)
{
    *text = *length = 0;
    return 0;
}
END_OF_UNKNOWN

for mpi in "${mpis[@]}"; do
    # Constant memory with MPICH alone: Open MPI grows by itself.
    case $mpi in
    openmpi) rounds=0 ;;
    mpich) rounds=10000 ;;
    esac
    try "$mpi: 20 exchanges of threads, and $rounds reductions" "$mpi" 2 "$top_builddir/test/mpi/mpi_threads.$mpi" 20 "$rounds"
    for number in $(numbers 2 3); do
        rm -f "$work/statistics"
        UCX_GDR_MPI_COLL=gpu UCX_GDR_STATS=$work/statistics try "$mpi: exchanges of threads whose GPUs reduce, $number ranks" \
            "$mpi" $number "$top_builddir/test/mpi/mpi_threads.$mpi" 10 0
        # 4 threads, 10 times 400,000 bytes, or nothing in a build without kernels.
        awk -v least="$([[ $kernels = no ]] || echo $((number * 4 * 10 * 400000)))" '
            match($0, /mpi_gpu_bytes=[0-9]+/) { sum += substr($0, RSTART + 14, RLENGTH - 14) }
            END { exit !(sum >= least) }' "$work/statistics"
        expect "$mpi: exchanges of threads whose GPUs reduce, $number ranks: by the GPUs" 0 $?
    done

    cc=$(mpicxx_of "$mpi")
    compile() { check "$mpi: $1 is compiled" "${cc/mpicxx/mpicc}" "${@:2}"; }
    compile tool.c -shared -fPIC "$work/tool.c" -o "$work/tool.so"
    compile query.c "$work/query.c" -o "$work/query"
    compile handle.c -D_GNU_SOURCE "$work/handle.c" -ldl -o "$work/handle"
    compile mpi_large.c "$top_srcdir/test/mpi/mpi_large.c" -o "$work/large"
    compile mpi_partitioned.c "$top_srcdir/test/mpi/mpi_partitioned.c" -ldl -o "$work/partitioned"
    rm -f "$work/statistics"
    UCX_GDR_STATS=$work/statistics ranks "$mpi" 2 "$work/partitioned"
    case $?,$(grep -c 'mpi_staged_bytes=[1-9]' "$work/statistics" 2>/dev/null) in
    0,2) ok "$mpi: partitions of GPU memory" ;;
    77,*) skip_case "$mpi: partitions of GPU memory" "it has none" ;;
    *) not_ok "$mpi: partitions of GPU memory" "$log" ;;
    esac
    ranks "$mpi" 2 "$top_builddir/test/mpi/mpi_pready.$mpi" 30
    case $? in
    0) ok "$mpi: partitions of GPU memory by threads" ;;
    77) skip_case "$mpi: partitions of GPU memory by threads" "it has none" ;;
    *) not_ok "$mpi: partitions of GPU memory by threads" "$log" ;;
    esac
    for number in $(numbers 2 4); do
        ranks "$mpi" "$number" "$work/large"
        case $? in
        0) ok "$mpi: large forms, $number ranks" ;;
        77) skip_case "$mpi: large forms, $number ranks" "it has none" ;;
        *) not_ok "$mpi: large forms, $number ranks" "$log" ;;
        esac
    done
    for preload in "$emulated_hca:$module:$work/tool.so:$mpi_layer" "$emulated_hca:$module:$mpi_layer:$work/tool.so"; do
        GDR_PRELOAD=$preload try "$mpi: a PMPI tool" "$mpi" 2 "$top_builddir/test/mpi/mpi_calls.$mpi" cuda 16 MPI_Allreduce
        expect "$mpi: the tool is called once by each rank" 2 "$(grep -c 'tool: MPI_Allreduce' "$log")"
    done
    if [[ $mpi == openmpi ]]; then
        # UCX is there for the window, and does not carry the messages.
        OMPI_MCA_pml=ob1 try "$mpi: messages that UCX does not carry" "$mpi" 2 "$top_builddir/test/mpi/mpi_calls.$mpi" cuda 1000 \
            MPI_Put MPI_Send MPI_Isend MPI_Sendrecv MPI_Bcast
        expect "$mpi: each rank says so once" 2 "$(grep -c 'its layer "ob1" carries them' "$log")"
    fi
    try "$mpi: MPIX_Query_cuda_support" "$mpi" 1 "$work/query"
    try "$mpi: no CUDA support by the library's handle" "$mpi" 1 "$work/handle"
    SOFTCUDA_DEVICES=0 check "$mpi: no CUDA support without a GPU" fails ranks "$mpi" 1 "$work/query"
    GDR_PRELOAD=$emulated_hca:$module:$mpi_layer:$work/libunknown.so \
        check "$mpi: no CUDA support with an unknown ABI" fails ranks "$mpi" 1 "$work/query"
    case $mpi in
    openmpi) compile ext.c -Werror -I"$top_srcdir/src/mpi/entries/ext" "$work/ext.c" -o "$work/asks" ;;
    mpich) compile gpus.c -Werror "$work/gpus.c" -o "$work/asks" ;;
    esac
    try "$mpi: MPIX_CUDA_AWARE_SUPPORT, or MPIX_GPU_query_support" "$mpi" 1 "$work/asks"
    GDR_PRELOAD=$emulated_hca:$module check "$mpi: no CUDA support without the layer" fails ranks "$mpi" 1 "$work/query"
done
done_testing
