#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Programs that look for calls of newer MPIs at run time find those that their MPI library has, and no others, although the
# MPI layer in front of it knows all: in programs that are linked with an MPI, and in those that open an extension that is, with
# one preload for several MPIs.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

nm -D --defined-only "$mpi_layer" | awk '$NF ~ /^P?MPIX?_/ && $NF !~ /MPIX_(Query|GPU)/ { print $NF }' >"$work/names"
note "$(wc -l <"$work/names") names"
check "the layer has names" test -s "$work/names"
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    for optimisation in -O0 -O2; do
        $compiler $optimisation -fPIC -fvisibility=hidden -D_GNU_SOURCE -I"$top_srcdir/src" -c \
            "$top_srcdir/src/mpi/entries/names.c" -o "$work/names.o"
        expect "$compiler $optimisation: what runs while the layer is relocated calls nothing by name" "dl_iterate_phdr mprotect sysconf" \
            "$(nm -u "$work/names.o" | awk '$2 !~ /^_(DYNAMIC|GLOBAL_OFFSET_TABLE_)$/ { print $2 }' | sort | paste -sd ' ')"
    done
done
# compiled COMPILER [ARGUMENT]...
compiled() { "$1" -D_GNU_SOURCE -Werror "$top_srcdir/test/mpi/mpi_names.c" "${@:2}"; }
check "a program without an MPI is compiled" compiled cc -ldl -o "$work/opens"
# in_front LIBRARY: a directory in which the loader finds it with the layer before it, as src/front makes it.
in_front() {
    local real empty=(cc -shared -nostdlib -x c /dev/null -x none)
    real=$(PATH=$PATH:/sbin ldconfig -p | awk -v library="$1" '$1 == library { print $NF; exit }')
    mkdir -p "$work/front/real"
    ln -sf "$real" "$work/front/real/real-$1"
    "${empty[@]}" -Wl,-soname,"real-$1" -o "$work/stub.so" &&
        "${empty[@]}" -Wl,-soname,"$1" -Wl,--auxiliary,"$mpi_layer" -Wl,--enable-new-dtags -Wl,-rpath,"$work/front/real" \
            -Wl,--no-as-needed "$work/stub.so" -o "$work/front/$1"
}

for mpi in "${mpis[@]}"; do
    cc=$(mpicxx_of "$mpi")
    cc=${cc/mpicxx/mpicc}
    check "$mpi: an extension is compiled" compiled "$cc" -DEXTENSION -shared -fPIC -o "$work/$mpi.so"
    check "$mpi: a program is compiled" compiled "$cc" -DLINKED -ldl -o "$work/linked.$mpi"
    library=$(ldd "$work/$mpi.so" | awk '$1 ~ /^libmpi(ch)?\.so/ { print $1 }')
    check "$mpi: the layer is put in front" in_front "$library"
    for way in opens linked; do
        program=$work/opens
        [[ $way = opens ]] || program=$work/linked.$mpi
        for now in '' yes; do
            LD_BIND_NOW=$now LD_PRELOAD=$module:$mpi_layer "$program" $way "$library" "$work/$mpi.so" <"$work/names" >"$log" 2>&1
            expect "$mpi: what a program that $way it finds${now:+, bound at its start}" "0 " "$? $(cat "$log")"
            # What is opened is nobody else's: the extension's references alone.
            LD_BIND_NOW=$now LD_LIBRARY_PATH=$work/front "$program" $way "$(readlink -f "$work/front/real/real-$library")" \
                "$work/$mpi.so" <"$([[ $way = opens ]] && echo /dev/null || echo "$work/names")" >"$log" 2>&1
            expect "$mpi: the same, not preloaded but in front${now:+, bound at its start}, $way" "0 " "$? $(cat "$log")"
        done
    done
done
done_testing
