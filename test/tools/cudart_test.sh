#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Programs of the CUDA runtime through "ucx-gdr run" where GPUs are emulated: compiled by g++ and by nvcc, linked
# with NVIDIA's library where it is installed, and what becomes of those that hold it.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

softcudart=$top_builddir/src/emu/softcudart
[ -n "${CUDART_SONAME-}" ] || skip_all "configured without cuda_runtime_api.h"
unset LD_LIBRARY_PATH # "ucx-gdr run" sets what is needed

cuda=${CUDA_CFLAGS#-isystem } # its include directory, or nothing
cuda=${cuda%/include}
cuda=${cuda:-/usr}
run() { "$tool" run --emulate-hca --emulate-gpu --no-plugin "$@" 2>&1; }

# The file of NVIDIA's library named $1, if it is installed.
nvidia_library() {
    for file in "$cuda/lib64/$1" "$cuda/lib/$1" "$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p |
        awk -v name="$1" '$1 == name { print $NF; exit }')"; do
        [ ! -f "$file" ] || { echo "$file"; return; }
    done
}

functions() { nm -D --defined-only "$1" | awk '$2 == "T" { sub(/@@/, "@", $3); print $3 }' | sort; }
emulated=$work/emulated
real=$work/real

for soname in libcudart.so.11.0 libcudart.so.12 libcudart.so.13; do
    expect "$soname: every symbol has its version" "" "$(functions "$softcudart/$soname" | grep -v "@$soname\$")"
    library=$(nvidia_library $soname)
    if [ -z "$library" ]; then
        skip_case "$soname: all symbols of NVIDIA's are there" "it is not installed"
        continue
    fi
    functions "$softcudart/$soname" >"$emulated"
    functions "$library" >"$real"
    expect "$soname: all symbols of NVIDIA's are there" "" "$(comm -13 "$emulated" "$real")"
done

# ---- compiled by any compiler

library=$(nvidia_library "$CUDART_SONAME")
# shellcheck disable=SC2086 # options
$CXX -std=c++17 ${CUDA_CFLAGS-} "$top_srcdir/test/tools/cudart_program.cpp" -o "$work/program" \
    "${library:-$softcudart/$CUDART_SONAME}" -Wl,-rpath-link,"$softcuda" -ldl || exit 99
expect "a program linked with NVIDIA's library or the emulated one" "$softcudart/$CUDART_SONAME
all right" "$(run "$work/program")"
expect "without GPUs" "$softcudart/$CUDART_SONAME
cudaGetDeviceCount(&count): cudaErrorNoDevice (no device)" "$(
    export SOFTCUDA_DEVICES=0
    run "$work/program" | head -n 2
)"

# ---- opened

cat >"$work/opens.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** arguments)
{
    void* runtime = dlopen(arguments[1], RTLD_NOW);
    int devices = 0, (*get_count)(int*) = runtime ? dlsym(runtime, "cudaGetDeviceCount") : NULL;
    int outcome = get_count ? get_count(&devices) : -1;
    return printf("%d, %d devices\n", outcome, devices) < 0 || count != 2;
}
END
gcc "$work/opens.c" -o "$work/opens" -ldl || exit 99
expect "opened by its bare name" "0, 2 devices" "$(run "$work/opens" libcudart.so)"
if [ -n "$library" ]; then
    expect "NVIDIA's, by its path" "softcuda: NVIDIA's CUDA runtime in $library needs NVIDIA's driver (cuGetExportTable), \
so its calls fail with error 801: the program opens this file by its path, or its run path (DT_RPATH) leads there before \
the emulated runtime is found; by name alone (libcudart.so) it gets that one under \"ucx-gdr run\"" \
        "$(run "$work/opens" "$library" | grep ^softcuda)"
fi

# ---- compiled by nvcc

nvcc=$(PATH=$PATH:$cuda/bin command -v nvcc)
if [ -z "$nvcc" ]; then
    skip_all "kernels: no nvcc in PATH or $cuda/bin"
fi
kernel() { # NAME shared|static
    "$nvcc" -cudart "$2" "$top_srcdir/test/tools/cudart_kernel.cu" -o "$work/$1" || exit 99
    run "$work/$1" >"$work/$1.log"
}
outcomes() { sed -n 's/^\(.*\): cuda/\1: cuda/p' "$work/$1.log"; }
kernel shared shared
expect "nvcc -cudart shared: all but device code" "cudaMalloc: cudaSuccess
cudaMemcpyToSymbol: cudaErrorNotSupported
launch: cudaErrorNotSupported
cudaDeviceSynchronize: cudaSuccess
cudaFree: cudaSuccess" "$(outcomes shared)"
expect "what does not run is named" \
    "softcudart: not launched: kernel add(int*, int): the emulated GPUs run no device code
softcudart: not there: device variable c: the emulated GPUs run no device code" \
    "$(grep '^softcudart:' "$work/shared.log" | sort)"
kernel static static
expect "nvcc without it: NVIDIA's runtime says that it cannot" 5 "$(outcomes static | grep -c cudaErrorNotSupported)"
expect "and softcuda why, once" "softcuda: NVIDIA's CUDA runtime in $work/static needs NVIDIA's driver \
(cuGetExportTable), so its calls fail with error 801: link with the shared runtime (nvcc -cudart shared), \
of which \"ucx-gdr run\" brings its own" "$(grep '^softcuda:' "$work/static.log")"

done_testing
