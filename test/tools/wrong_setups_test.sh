#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# A gallery of wrong set-ups: for each the line that its user sees, which docs/howto/troubleshooting.md explains.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
unset UCX_NET_DEVICES UCX_MODULES GDR_EMULATION FI_PROVIDER
cd "$work" || exit 99 # a ucx.conf is looked for here
pages=$top_srcdir/docs/howto/troubleshooting.md

# seen SETUP LINE COMMAND [ARGUMENT]...: the command says LINE, and the page has it.
seen() {
    local setup=$1 line=$2
    shift 2
    timeout -k 5 60 "$@" >"$work/said" 2>&1 </dev/null
    status=$?
    unfold <"$work/said" | if grep -qF -e "$line"; then ok "$setup"; else not_ok "$setup" "$work/said"; fi
    check "$setup: docs/howto/troubleshooting.md has it" grep -qF -e "$line" "$pages"
}
told=("$tool" info --emulate-hca --emulate-gpu)
# The ucx-gdr of another machine, as sed makes it.
elsewhere=$work/ucx-gdr
on_a_machine() {
    sed "s|^src=.*|here='${tool%/*}' src='${tool%/*/*}'|; $1" "$tool" >"$elsewhere"
    chmod +x "$elsewhere"
}

section "settings"
UCX_TLS=rc,cuda_copy seen "UCX_TLS without gdr" "UCX_TLS=rc,cuda_copy leaves gdr out" "${told[@]}"
expect "UCX_TLS without gdr: the verdict comes first" "1 verdict    UCX has no network device of gdr: the lines below say why" \
    "$status $(head -n 1 "$work/said")"
echo UCX_TLS=^gdr >ucx.conf
seen "UCX_TLS of a file" "/ucx.conf: UCX_TLS=^gdr leaves gdr out" "${told[@]}"
rm ucx.conf
UCX_NET_DEVICES=eth0 seen "UCX_NET_DEVICES without an HCA" "UCX_NET_DEVICES=eth0 names no port of an HCA" "${told[@]}"
UCX_MODULES=^gdr seen "UCX_MODULES without gdr" "UCX_MODULES=^gdr leaves gdr out" "${told[@]}"
OMPI_MCA_pml=^ucx seen "Open MPI without its UCX layer" "Open MPI will not use UCX: OMPI_MCA_pml=^ucx" "${told[@]}"
expect "Open MPI without its UCX layer: UCX itself has gdr" 0 "$status"

section "libraries"
program=$(for file in /usr/bin/su /usr/bin/passwd /usr/bin/mount; do [[ ! -u $file || -O $file ]] || echo "$file"; done | head -n 1)
if [[ -n $program ]]; then
    seen "LD_PRELOAD that the loader does not heed" "takes another user or group (set-uid), and the loader preloads nothing there" \
        "$tool" run --no-emulation "$program" --help
    expect "a program of the user's own is none of these" 0 \
        "$(cp /bin/true mine && chmod u+s mine && "$tool" run --no-emulation ./mine 2>&1 | grep -c set-uid)"
fi
# A UCX that calls itself 99.0.0.
copy_ucx other
cat >version.c <<'END_OF_FILE'
void uct_release_component_list(void **);
void (*linked_with_libuct)(void **) = &uct_release_component_list;
void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release) { *major = 99; *minor = *release = 0; }
END_OF_FILE
gcc -shared -fPIC -o other/libversion.so version.c other/libuct.so.0 -Wl,--allow-shlib-undefined
seen "an unknown UCX" "is not supported by this ucx-gdr, which knows UCX 1.13 to" env \
    "LD_LIBRARY_PATH=$work/other:$LD_LIBRARY_PATH" "LD_PRELOAD=$work/other/libversion.so:$emulated_hca:$module" "$ucx_info" -d
mkdir mpi
printf '#!/bin/sh\n' | tee mpi/mpirun mpi/impi_info >mpi/mpichversion
chmod +x mpi/*
PATH=$work/mpi:$PATH seen "an MPI of another kind" "Intel MPI uses UCX by FI_PROVIDER=mlx alone" "${told[@]}"
rm mpi/impi_info
mkdir lib
echo 'int MPI_Init(void) { return 0; }' | gcc -shared -fPIC -x c -o lib/libmpich.so.12 -
PATH=$work/mpi:$PATH seen "an MPICH without UCX" "libmpich.so.12 does not use UCX" "${told[@]}"
if mpirun=$(mpirun_of openmpi) && [[ -x $top_builddir/test/mpi/mpi_progress.openmpi ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    seen "the layer for MPI is not preloaded" "What stages such calls, libgdr_mpi.so.0, is not in this process" \
        env TMPDIR="$work" "$mpirun" -n 2 -x OMPI_MCA_pml=ucx -x OMPI_MCA_osc=ucx -x OMPI_MCA_opal_common_ucx_tls=any \
        -x OMPI_MCA_opal_common_ucx_devices=any -x UCX_TLS=gdr -x LD_LIBRARY_PATH -x LD_PRELOAD="$emulated_hca:$module" \
        "$top_builddir/test/mpi/mpi_progress.openmpi" receive
else
    skip_case "the layer for MPI is not preloaded" "no test/mpi/mpi_progress.openmpi"
fi

section "devices"
on_a_machine "s|^sys_ib=.*|sys_ib=$work/ib|"
seen "no HCA and no emulation" "no usable HCA, and none is emulated (--no-emulation, GDR_EMULATION=no): no RDMA device" \
    "$elsewhere" run --no-emulation true
mkdir -p ib/mlx5_0/ports/1 verbs/uverbs0
echo "1: CA" >ib/mlx5_0/node_type
echo "4: ACTIVE" >ib/mlx5_0/ports/1/state
echo mlx5_0 >verbs/uverbs0/ibdev
on_a_machine "s|^sys_ib=.*|sys_ib=$work/ib|; s|/sys/class/infiniband_verbs|$work/verbs|; s|/dev/infiniband|$work/dev|"
seen "a container without the HCA's file" "uverbs0 is missing: pass the device into the container" \
    "$elsewhere" run --no-emulation true
(
    ulimit -l 1024
    SOFTHCA_MEMLOCK=enforce seen "too little locked memory" "cannot be given buffers: ibv_reg_mr of" "${told[@]}"
)
mkdir -p pci/0000:01:00.0
echo 0x10de >pci/0000:01:00.0/vendor
echo 0x030200 >pci/0000:01:00.0/class
on_a_machine "s|^sys_pci=.*|sys_pci=$work/pci|; s|/proc/driver/nvidia/version|$work/none|"
seen "a GPU without its driver" "NVIDIA's kernel driver is not loaded, though there is a GPU (0000:01:00.0)" \
    "$elsewhere" run --no-emulation true
: >version
: >nvidia0
on_a_machine "s|/proc/driver/nvidia/version|$work/version|; s|/dev/nvidia\[0-9\]\*|$work/nvidia0|; s|^gpu_usable|ldconfig() { :; }; &|"
LD_LIBRARY_PATH='' seen "a driver without libcuda" "libcuda.so.1 not found: install the driver's user-space part" \
    "$elsewhere" run --no-emulation true

section "emulation"
on_a_machine "s/^with_emulation=.*/with_emulation=no/"
seen "it is forbidden" "this ucx-gdr was built without the emulated HCA and GPUs" "$elsewhere" run --emulate-hca true
expect "it is forbidden: nothing is run" 2 "$status"
if [[ ! -e /sys/class/infiniband ]]; then
    seen "between hosts" "none is emulated in a job that spans hosts" \
        env OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "$tool" run true
    expect "between hosts: nothing is run" 1 "$status"
fi

done_testing
