#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr doctor" says of real breakages: a mount namespace has the devices of a machine in order, on which the
# doctor finds nothing. Then limits, devices, files and environment are broken as users break them: the cause has to
# stand first, and nothing is found where it is mended.
set -u

if [[ ${1-} != inside ]]; then
    isolated=(unshare --mount)
    "${isolated[@]}" true 2>/dev/null || isolated=(unshare --map-root-user --mount)
    if "${isolated[@]}" true 2>/dev/null; then exec "${isolated[@]}" "$0" inside; fi
fi
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
[[ ${1-} == inside ]] || skip_all "no mount namespaces for users (unshare)"
[[ $GDR_DOCTOR == yes ]] || skip_all "ucx-gdr was built without the doctor"
command -v setpriv >/dev/null || skip_all "no setpriv (package util-linux)"
unset LD_PRELOAD LD_LIBRARY_PATH GDR_EMULATION FI_PROVIDER UCX_CONFIG_DIR
for variable in $(compgen -e | grep -E '^(SLURM|FLUX|PMI|PMIX|PALS|UCX)_|^OMPI_|^MPI_LOCAL'); do unset "$variable"; done
ulimit -l unlimited 2>/dev/null
ulimit -n 4096 2>/dev/null || ulimit -n "$(ulimit -H -n)"

section "a machine in order"
"$top_srcdir/test/machines/dump" two_socket_a100 "$work/machine" || exit 99
root=$work/machine/root
mkdir "$root/boot" "$work/home" "$work/job" "$work/libraries" 2>/dev/null
mv "$root"/boot/config-* "$root/boot/config-$(uname -r)"
at_exit "cd /; umount --lazy --recursive /dev /sys /boot; umount --lazy $root/dev/* 2>/dev/null"
for name in null zero full random urandom tty; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name" || skip_all "devices cannot be bound"
done
mkdir "$root/dev/shm" && mount -t tmpfs -o size=1g,mode=1777 tmpfs "$root/dev/shm" || skip_all "nothing can be mounted"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs /proc/driver && cp -R "$root/proc/driver/nvidia" /proc/driver || skip_all "nothing can be mounted in /proc"
mount --bind "$root/sys" /sys && mount --bind "$root/boot" /boot && mount --rbind "$root/dev" /dev || skip_all "nothing can be bound"
echo 'int cuInit(unsigned flags) { return (int)flags; }' | gcc -shared -fPIC -x c -o "$work/libraries/libcuda.so.1" - || exit 99
export LD_LIBRARY_PATH=$work/libraries HOME=$work/home TMPDIR=$work
chmod -R a+rX "$work"
chmod a+rwx "$work/job" "$work"
cd "$work/job" || exit 99
mkdir "$HOME/.openmpi"
echo "pml = ucx" >"$HOME/.openmpi/mca-params.conf" # Debian switches it off
printf '#!/bin/sh\nexec true\n' >program
chmod +x program

# as_user COMMAND...: without the rights of root, also over its own files, but for $rights.
rights=,+ipc_lock # which leaves the limit of locked memory out
as_user() { setpriv --bounding-set=-all$rights --inh-caps=-all "$@"; }
# doctor [ARGUMENT]...: leaves what it says in $work/said, and its status.
doctor() {
    as_user timeout -k 5 60 "${before[@]}" "$tool" doctor "$@" >"$work/said" 2>&1 </dev/null
    status=$?
}
# The name of the first finding.
first() { awk '$1 ~ /^(ERROR|WARNING)$/ { print $2; exit }' "$work/said"; }
# finds NAME ID [TEXT]: of the last report.
finds() {
    if [[ $(first) == "$2" ]] && grep -qF -e "${3-}" "$work/said"; then ok "$1"; else not_ok "$1" "$work/said"; fi
}
# in_order NAME: of the last report.
in_order() { if [[ $status == 0 && -z $(first) ]]; then ok "$1"; else not_ok "$1" "$work/said"; fi; }
before=()
doctor
[[ $(first) != limits.memlock ]] || skip_all "the limit of locked memory cannot be taken away (ulimit -l, CAP_IPC_LOCK)"
in_order "nothing is found"
[[ $status == 0 ]] || done_testing

section "limits"
before=(prlimit --memlock=1048576)
rights=
doctor
rights=,+ipc_lock
finds "locked memory" limits.memlock "1 MiB may be locked"
before=(prlimit --nofile=256)
doctor
finds "open files" limits.nofile "256 files may be open"
before=()
mount -t tmpfs -o size=16m tmpfs /dev/shm
doctor
finds "/dev/shm" limits.shm "/dev/shm has 16 MiB"
umount /dev/shm
doctor
in_order "mended"

section "devices"
mount -t tmpfs tmpfs /dev/infiniband
doctor
finds "/dev/infiniband is missing" hca.uverbs "/dev/infiniband/uverbs0 is missing"
umount /dev/infiniband
chmod 000 /dev/infiniband/*
doctor
finds "no rights for the HCA's file" hca.perm "/dev/infiniband/uverbs0"
chmod 666 /dev/infiniband/*
mv /dev/nvidia[0-9]* "$work"
doctor
finds "/dev/nvidia0 is missing" gpu.dev "/dev/nvidia"
mv "$work"/nvidia[0-9]* /dev
mv libraries "$work/apart" 2>/dev/null || mv "$work/libraries" "$work/apart"
doctor
finds "libcuda is missing" gpu.lib libcuda.so.1
mv "$work/apart" "$work/libraries"
sed -i.was 's/Open Kernel Module/Kernel Module/' /proc/driver/nvidia/version
doctor
finds "NVIDIA's closed modules" gpu.modules-closed ""
mv /proc/driver/nvidia/version.was /proc/driver/nvidia/version
doctor
in_order "mended"

section "UCX"
echo "UCX_TLS = rc,tcp" >ucx.conf
doctor
finds "a ucx.conf in the current directory" ucx.conf "$work/job/ucx.conf: UCX_TLS=rc,tcp leaves gdr out"
rm ucx.conf
before=(env UCX_NET_DEVICES=eth0)
doctor
finds "UCX_NET_DEVICES names no HCA" ucx.env "UCX_NET_DEVICES=eth0"
before=()
doctor
in_order "mended"

section "Open MPI"
if mpirun=$(mpirun_of openmpi); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    job=("$mpirun" -n 2 -x "LD_PRELOAD=$module" -x OMPI_MCA_opal_common_ucx_tls=any -x OMPI_MCA_opal_common_ucx_devices=any ./program)
    echo "pml = ^ucx" >"$HOME/.openmpi/mca-params.conf"
    doctor "${job[@]}"
    finds "pml = ^ucx" mpi.pml "$HOME/.openmpi/mca-params.conf says pml = ^ucx"
    echo "pml = ucx" >"$HOME/.openmpi/mca-params.conf"
    doctor "${job[@]}"
    in_order "pml = ucx"
else
    skip_case "pml = ^ucx" "no Open MPI"
fi

section "jobs of two ranks"
# The second rank is started through $work/second.
# shellcheck disable=SC2016 # expands there
printf '#!/bin/sh\n[ "$SLURM_PROCID" = 0 ] || exec "%s/second" "$@"\nexec "$@"\n' "$work" >"$work/rank"
chmod +x "$work/rank"
# job SCRIPT: the script starts the second rank.
job() {
    printf '#!/bin/sh\n%s\n' "$1" >"$work/second"
    chmod +x "$work/second"
    as_user timeout -k 5 100 env "LD_PRELOAD=$module" "$top_srcdir/test/tools/srun" -n 2 "$work/rank" \
        "$tool" doctor --job ./program >"$work/said" 2>&1 </dev/null
    status=$?
}
# shellcheck disable=SC2016 # expands there
{
    job 'exec "$@"'
    in_order "nothing is found"
    job 'exec env -u LD_PRELOAD "$@"'
    finds "a launcher strips LD_PRELOAD" launch.preload "nothing brings gdr into ./program"
    rights=,+ipc_lock,+setpcap
    job 'ulimit -l 1024; exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
    finds "the second rank's locked memory" limits.memlock "(rank 1): 1 MiB may be locked"
    other=$(other_ucx)
    rights=,+ipc_lock,+sys_admin
    job "LD_LIBRARY_PATH=$other:\$LD_LIBRARY_PATH exec unshare --uts sh -c 'hostname gdr-b && exec \"\$@\"' sh \"\$@\""
    finds "two hosts with two versions of UCX" launch.mixed "UCX differs: "
    check "two hosts with two versions of UCX: which" grep -qF "$other/libucp.so.0 on gdr-b (rank 1)" "$work/said"
    if unshare --pid --fork true 2>/dev/null; then
        job 'exec unshare --pid --fork --kill-child "$@"'
        finds "pid namespaces" ct.ns "the pid namespace differs: "
    else
        skip_case "pid namespaces" "no pid namespaces"
    fi
    rights=,+ipc_lock
    job 'exec "$@"'
    in_order "mended"
}
done_testing
