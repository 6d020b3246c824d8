#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr info" says of HCAs that the system shows as usable, and the module uses or not, of
# gdrcopy and of CUDA IPC; and that the doctor has its say.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

# The emulated HCAs as if the system had them.
for hca in 0 1; do
    mkdir -p "$work/ib/$hca_name$hca/ports/1" "$work/verbs/uverbs$hca" "$work/dev"
    echo "1: CA" >"$work/ib/$hca_name$hca/node_type"
    echo "4: ACTIVE" >"$work/ib/$hca_name$hca/ports/1/state"
    echo InfiniBand >"$work/ib/$hca_name$hca/ports/1/link_layer"
    echo "100 Gb/sec" >"$work/ib/$hca_name$hca/ports/1/rate"
    echo $hca_name$hca >"$work/verbs/uverbs$hca/ibdev"
    : >"$work/dev/uverbs$hca"
done
shown=$tool.info_test.$$
at_exit 'rm -f "$shown"'
sed "s|/sys/class/infiniband_verbs|$work/verbs|; s|/sys/class/infiniband\$|$work/ib|; s|/dev/infiniband|$work/dev|" \
    "$tool" >"$shown"
chmod +x "$shown"

# What the module says of ports that it does not use. libibverbs lists a kernel's devices in any order, as softmlx5's are.
ports() {
    env SOFTHCA_DEVICES=2 LD_PRELOAD="$emulated_hca" "$@" "$shown" info --emulate-gpu 2>&1 | unfold |
        sed "s/ (emulated by softmlx5)$//; s/ ${hca_name}1:1 ${hca_name}0:1\$/ ${hca_name}0:1 ${hca_name}1:1/" |
        sed -n 's/^verdict  *//p; s/^ *gdr: \(ports not used: .*\)/\1/p; s/^ *gdr: \(no HCA can be used\).*/\1/p'
}

expect "both are used" "UCX has gdr, on ${hca_name}0:1 ${hca_name}1:1" "$(ports env)"
expect "one is not, and the module says why" "UCX has gdr, on ${hca_name}0:1
ports not used: ${hca_name}1:1 is down (is its cable plugged in?)" "$(ports SOFTHCA_FAULTS="softhca1 down 600000 at start")"
expect "none is" "UCX has no network device of gdr: the lines below say why
no HCA can be used" "$(ports SOFTHCA_FAULTS="down 600000 at start")"

# What the doctor finds of the command that asked UCX.
found() { UCX_TLS=rc "$@" 2>&1 | sed -n 's/^[A-Z]* *\(ucx\.env\|launch\.[a-z]*\) *//p'; }
expect "the doctor has a part in it" "UCX_TLS=rc leaves gdr out" "$(found "$tool" info "$emulate_hca" --emulate-gpu)"
sed "s/^with_doctor='.*'/with_doctor='no'/" "$tool" >"$shown.less"
at_exit 'rm -f "$shown.less"'
chmod +x "$shown.less"
expect "but in a build without it" "" "$(found "$shown.less" info "$emulate_hca" --emulate-gpu)"
check "which says so" grep -q '^ *built without ucx-gdr doctor$' <<END
$("$shown.less" info "$emulate_hca" --emulate-gpu 2>&1)
END

# What the module says of gdrcopy.
gdrcopy() {
    env LD_PRELOAD="$emulated_hca" "$@" "$shown" info --emulate-gpu 2>&1 | unfold | sed -n 's/^ *gdr: \(gdrcopy .*\)/\1/p'
}
expect "gdrcopy is missing" \
    "gdrcopy not used: libgdrapi.so.2: cannot open shared object file: No such file or directory" "$(gdrcopy env)"
expect "gdrcopy is there" "gdrcopy used: small copies to and from GPU memory are the CPU's" \
    "$(gdrcopy LD_LIBRARY_PATH="$top_builddir/src/emu/softgdrcopy/.libs:$LD_LIBRARY_PATH")"
expect "it is switched off" "gdrcopy not used: UCX_GDR_COPY_GDRCOPY is n" "$(gdrcopy UCX_GDR_COPY_GDRCOPY=n)"

# What the module says of CUDA IPC: each pair of GPUs, and what cannot. What it adds in a container,
# which a test may run in, is left out.
ipc() {
    env UCX_GDR_IPC=y "$@" LD_PRELOAD="$emulated_hca" "$shown" info --emulate-gpu 2>&1 | unfold |
        sed -n '/processes of this container/d; /CUDA IPC/s/^ *gdr: //p'
}
memory="CUDA IPC is tried with memory of cudaMalloc, and of cuMemCreate with POSIX file descriptors or fabric handles; \
not with that of pools (cudaMallocAsync, RMM's async resource, PyTorch with backend:cudaMallocAsync) and PyTorch's \
expandable_segments"
expect "three GPUs" "$memory
GPU 0 and GPU 1: across NVLink, 387 GB/s by CUDA IPC where memory opens
GPU 0 and GPU 2: across NVLink, 387 GB/s by CUDA IPC where memory opens
GPU 1 and GPU 2: across NVLink, 387 GB/s by CUDA IPC where memory opens" "$(ipc SOFTCUDA_DEVICES=3)"
expect "no NVLink" "$memory
GPU 0 and GPU 1: across PCIe, for writing, 55 GB/s by CUDA IPC where memory opens" "$(ipc SOFTCUDA_DEVICES=2 SOFTCUDA_LINK=pcie)"
expect "GPUs that do not reach one another" "$memory
GPU 0 and GPU 1: no CUDA IPC, for the driver does not let them reach each other (MIG, a virtual machine, or no \
path: nvidia-smi topo -p2p r)" "$(ipc SOFTCUDA_DEVICES=2 SOFTCUDA_P2P=off)"
expect "one GPU" "$memory
GPU 0: CUDA IPC with processes on the same GPU; the system shows no other (a container's may be kept from it)" \
    "$(ipc SOFTCUDA_DEVICES=1)"
expect "one GPU for each rank" "$memory
GPU 0 and the hidden GPU c0da:01:00.0: across NVLink, 387 GB/s by CUDA IPC where memory opens
GPU 0 and the hidden GPU c0da:03:00.0: across NVLink, 387 GB/s by CUDA IPC where memory opens" \
    "$(ipc SOFTCUDA_DEVICES=3 CUDA_VISIBLE_DEVICES=1)"
expect "and no NVLink" "$memory
GPU 0 and the hidden GPU c0da:01:00.0: across PCIe, for writing, 55 GB/s by CUDA IPC where memory opens" \
    "$(ipc SOFTCUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1 SOFTCUDA_LINK=pcie)"
expect "and out of reach" "$memory
GPU 0 and the hidden GPU c0da:01:00.0: no CUDA IPC, for the driver does not let them reach each other (MIG, a virtual \
machine, or no path: nvidia-smi topo -p2p r)" "$(ipc SOFTCUDA_DEVICES=2 CUDA_VISIBLE_DEVICES=1 SOFTCUDA_P2P=off)"

# What a second process opens.
tried() {
    env UCX_GDR_IPC=y SOFTCUDA_DEVICES=2 "$@" LD_PRELOAD="$emulated_hca" "$shown" info --emulate-gpu 2>&1 | unfold |
        sed -n 's/ ([^()]*)$//; /^CUDA IPC  *tried/,/^[^ ]/s/^ *memory of //p'
}
pools="pools (cudaMallocAsync): does not open: cuIpcGetMemHandle: CUDA_ERROR_INVALID_VALUE"
fabric="cuMemCreate with fabric handles: does not open: cuMemCreate: CUDA_ERROR_NOT_PERMITTED"
expect "memory that opens" "cudaMalloc: opens
cuMemCreate with file descriptors: opens
$fabric
$pools" "$(tried env)"
expect "and with an IMEX channel" "cudaMalloc: opens
cuMemCreate with file descriptors: opens
cuMemCreate with fabric handles: opens
$pools" "$(tried SOFTCUDA_IPC=fabric)"
descriptors="cuMemCreate with file descriptors: does not open: cuMemExportToShareableHandle: CUDA_ERROR_NOT_SUPPORTED"
expect "handles alone" "cudaMalloc: opens
$descriptors
$fabric
$pools" "$(tried SOFTCUDA_IPC=legacy)"
expect "none" "cudaMalloc: does not open: cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED
$descriptors
$fabric
pools (cudaMallocAsync): does not open: cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED" "$(tried SOFTCUDA_IPC=off)"
expect "GPUs that do not reach one another: none between them" \
    "cudaMalloc within each GPU: opens
cudaMalloc between GPUs: does not open: cuIpcOpenMemHandle: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" \
    "$(tried SOFTCUDA_P2P=off | grep '^cudaMalloc')"
mkdir "$work/bin"
ln -s /usr/sbin/* /usr/bin/* /bin/* "$work/bin" 2>/dev/null
rm "$work/bin/ucx_info"
expect "it is tried without ucx_info, too" "cudaMalloc: opens" "$(tried PATH="$work/bin" | grep '^cudaMalloc')"
expect "nothing is tried where CUDA IPC is switched off" "" "$(tried UCX_GDR_IPC=n)"
expect "CUDA IPC is switched off" "no CUDA IPC between processes of this host: UCX_GDR_IPC=n" "$(ipc UCX_GDR_IPC=n)"
done_testing
