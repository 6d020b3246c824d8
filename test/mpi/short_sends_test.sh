#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# UCP's short sends in MPI programs, over transports that are not gdr's, on the emulated devices and with every MPI that
# is installed: they go without a look at the memory until MPI calls bring memory of a GPU, whichever call is the first, and
# never where that cannot be seen: without the layer, or with another UCX context.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/mpi/environment.sh
. "$top_srcdir/test/mpi/environment.sh"

# What the short sends do in turn, and when, by the ranks' lines in the log.
story() {
    sed -n -e "s/.*gdr: UCP's short sends go without a look.*/free/p" -e "s/.*gdr: UCP's short sends take a look.*/looked at/p" \
        -e 's/^\(host\|GPU\) memory: right$/\1/p' -e 's/^own context: right$/other/p' "$log" | paste -sd,
}

# tells WHAT MPI NUMBER STORY|any [ARGUMENT]...
tells() {
    local what="$2, $3 ranks, $UCX_TLS: $1" mpi=$2 number=$3 wanted=$4 level=debug status
    shift 4
    # UCX 1.22.0 waits for itself at that level, when a window of GPU memory is made (ucs_topo_sys_device_get_name).
    [[ $wanted != any ]] || level=warn
    UCX_LOG_LEVEL=$level ranks "$mpi" "$number" "$top_builddir/test/mpi/mpi_short_sends.$mpi" "$@"
    status=$?
    if [[ $status -eq 0 && ($wanted = any || $(story) = "$wanted") ]]; then
        ok "$what"
    else
        grep -v 'UCX  \(DEBUG\|INFO\)' "$log" >"$work/said"
        not_ok "$what" "$work/said"
        note "status $status: $(story), not $wanted"
    fi
}

# library_of MPI: that a program is linked with.
library_of() { ldd "$top_builddir/test/mpi/mpi_short_sends.$1" | awk '/libmpi(ch)?\.so/ { print $3; exit }'; }

cat >"$work/tool.c" <<'END_OF_TOOL'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request)
{
    int (*next)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = dlsym(RTLD_NEXT, "PMPI_Isend");
    return next(buffer, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request)
{
    int (*next)(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = dlsym(RTLD_NEXT, "PMPI_Irecv");
    return next(buffer, count, type, from, tag, comm, request);
}
END_OF_TOOL

layer=$GDR_PRELOAD
other=$top_builddir/test/mpi/.libs/libown_ucp.so
first=(MPI_Send MPI_Isend MPI_Ssend MPI_Rsend MPI_Bsend MPI_Send_init MPI_Sendrecv MPI_Sendrecv_replace MPI_Bcast MPI_Allreduce
    MPI_Alltoallw MPI_Put MPI_Pack MPI_Psend_init)
for mpi in "${mpis[@]}"; do
    cc=$(mpicxx_of "$mpi")
    export UCX_TLS=self,gdr
    tells "until a GPU's memory comes" "$mpi" 1 'free,host,looked at,GPU,host'
    tells "not with another UCX context" "$mpi" 1 'free,host,looked at,other,GPU,host' own "$other"
    UCX_MEMTYPE_CACHE=n tells "not where the user decides" "$mpi" 1 'host,GPU,host'
    UCX_TLS=gdr tells "as ever where all transports are gdr's" "$mpi" 1 'free,host,GPU,host'
    for UCX_TLS in sm,self,gdr tcp,self,gdr all; do
        tells "right" "$mpi" 2 any
    done
    UCX_TLS=sm,self,gdr
    for way in window offset callback; do
        tells "$way" "$mpi" 2 any $way
    done
    OMPI_MCA_osc=pt2pt tells "window, by messages" "$mpi" 2 any window
    OMPI_MCA_io=romio321 tells "not by the library's handle" "$mpi" 2 'host,host,GPU,GPU,host,host' handle "$(library_of "$mpi")"
    "${cc/mpicxx/mpicc}" -shared -fPIC "$work/tool.c" -o "$work/tool.so" || not_ok "$mpi: tool.c is compiled"
    GDR_PRELOAD=$layer:$work/tool.so
    tells "a tool behind the layer that does not come back" "$mpi" 2 any
    GDR_PRELOAD=$emulated_hca:$module
    tells "not without the layer" "$mpi" 2 'host,host,GPU,GPU,host,host'
    GDR_PRELOAD=$layer
    for call in "${first[@]}"; do
        if calls "$mpi" 2 cuda 8 "$call" && ! grep -q 'wrong' "$log"; then
            ok "$mpi: $call first"
        else
            not_ok "$mpi: $call first" "$log"
        fi
    done
done
done_testing
