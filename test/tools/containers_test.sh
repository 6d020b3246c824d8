#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Two network namespaces with host names of their own, as two hosts and as two containers of one. One lacks an HCA: the job
# ends and says why, instead of emulating one that the other does not reach.
set -u

if [[ ${1-} != inside ]]; then
    isolated=(unshare --map-root-user --mount --net --uts)
    if "${isolated[@]}" ip netns 2>/dev/null; then exec "${isolated[@]}" "$0" inside; fi
fi
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
[[ ${1-} == inside ]] || skip_all "no namespaces of users, networks and host names (unshare, ip)"
mpirun=$(mpirun_of openmpi) || skip_all "no Open MPI"
for variable in $(compgen -e | grep -E '^(SLURM|FLUX|PMI|PMIX|PALS)_|^OMPI_COMM_WORLD|^MPI_LOCAL'); do unset "$variable"; done

# gdr-a is here, gdr-b behind a wire.
hostname gdr-a
mount -t tmpfs tmpfs /run || skip_all "nothing can be mounted"
ip netns add gdr-b && ip link add wire type veth peer name wire netns gdr-b 2>"$work/ip" || skip_all "$(cat "$work/ip")"
at_exit 'ip netns del gdr-b'
ip link set lo up
ip address add 10.77.0.1/24 dev wire && ip link set wire up
ip -n gdr-b link set lo up
ip -n gdr-b address add 10.77.0.2/24 dev wire && ip -n gdr-b link set wire up
printf '127.0.0.1 localhost\n10.77.0.1 gdr-a\n10.77.0.2 gdr-b\n' >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts

# on_b COMMAND...: there, as it is for a shell.
cat >"$work/on_b" <<'END_OF_FILE'
#!/bin/sh
exec ip netns exec gdr-b unshare --uts sh -c "hostname gdr-b && $*"
END_OF_FILE
# How Open MPI reaches another host: by HOST COMMAND...
printf '#!/bin/sh\nshift\nexec %s "$@"\n' "$work/on_b" >"$work/agent"
# The second rank in gdr-b, the first here.
printf '#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec %s "$@"\nexec "$@"\n' "$work/on_b" >"$work/contained"
# An HCA in gdr-a.
tool_here=$work/ucx-gdr
sed "s|^src=.*|here='${tool%/*}' src='${tool%/*/*}'|; s|^sys_ib=.*|sys_ib=$work/\$(uname -n)|; s|/sys/class/infiniband_verbs|$work/verbs|; s|/dev/infiniband|$work/dev|" \
    "$tool" >"$tool_here"
chmod +x "$work/on_b" "$work/agent" "$work/contained" "$tool_here"
mkdir -p "$work/gdr-a/mlx5_0/ports/1" "$work/verbs/uverbs0" "$work/dev"
echo "1: CA" >"$work/gdr-a/mlx5_0/node_type"
echo "4: ACTIVE" >"$work/gdr-a/mlx5_0/ports/1/state"
echo mlx5_0 >"$work/verbs/uverbs0/ibdev"
: >"$work/dev/uverbs0"

# job OPTION... -- ARGUMENT...: a job's status, and what ucx-gdr says in it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR="$work"
job() {
    timeout -k 5 60 "$mpirun" --mca plm_rsh_agent "$work/agent" "$@" >"$work/said" 2>&1 </dev/null
    echo "$?"
    grep '^ucx-gdr: ' "$work/said" | sed 's/: no RDMA device: .*\(To run\)/: no RDMA device. \1/'
}
run=("$tool_here" run --emulate-gpu)
lacks="no usable HCA, and none is emulated in a job"
rest="no RDMA device. To run without one: --no-emulation"
expect "two hosts are there" $'gdr-a\ngdr-b' \
    "$(timeout 60 "$mpirun" --mca plm_rsh_agent "$work/agent" -H gdr-a,gdr-b uname -n 2>/dev/null </dev/null | sort)"
expect "two hosts, one without an HCA: the job ends with the reason" "1
ucx-gdr: gdr-b: $lacks that spans hosts: $rest" "$(job -H gdr-a,gdr-b "${run[@]}" sleep 30)"
expect "with two ranks each it is said once" 1 "$(job -H gdr-a:2,gdr-b:2 "${run[@]}" sleep 30 | grep -c "$lacks")"
expect "two containers of one host, one without an HCA" "1
ucx-gdr: gdr-b: $lacks whose ranks are in containers of their own (on gdr-a, says its launcher): $rest" \
    "$(job -n 2 "$work/contained" "${run[@]}" sleep 30)"
expect "what is asked for by name is emulated there, too" 0 "$(job -n 2 "$work/contained" "${run[@]}" --emulate-hca true)"
expect "a container is no reason for a single process" "0
ucx-gdr: emulated HCA, because: no RDMA device" \
    "$(job -n 1 "$work/on_b" "${run[@]}" true | sed 's/device: .*/device/')"
done_testing
