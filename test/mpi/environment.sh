# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the scripts that run MPI programs share, on the emulated devices and in the machine: the MPIs at
# hand, how a program is started on several ranks, and docs/reference/mpi-calls-full.md's table. Sourced after
# test/ucp/environment.sh or test/vm/environment.sh.

# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

case ${GDR_SANITIZERS:-none} in
none) ;;
*)
    skip_all "MPI libraries are not run under a sanitizer"
    ;;
esac

[[ ${GDR_MPI:-yes} = yes ]] || {
    echo "this build has no MPI layer (--disable-mpi)"
    exit 77
}

mpis=()
for mpi in openmpi mpich; do
    ! mpirun_of $mpi >/dev/null || mpis+=("$mpi")
done
if [[ ${#mpis[@]} -eq 0 ]]; then
    skip_all "neither Open MPI nor MPICH (contrib/install-deps --test)"
fi

log=$work/log # of the latest ranks
export TMPDIR=$work
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # the latter from 5.0 on
export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any
export OMPI_MCA_btl_base_warn_component_unused=0

# What every rank executes: it writes to the log itself, of which mpirun may lose the end when a rank
# dies, and takes its HCA from UCPTEST_NET_DEVICES as the ranks of test/ucp do.
cat >"$work/rank" <<'END'
exec >>"$1" 2>&1
shift
rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
IFS=';' read -r -a devices <<<"${UCPTEST_NET_DEVICES-}"
[[ ${#devices[@]} -eq 0 ]] || export UCX_NET_DEVICES=${devices[rank % ${#devices[@]}]}
LD_PRELOAD=$GDR_PRELOAD exec "$@"
END
export GDR_PRELOAD=$emulated_hca:$module:$mpi_layer

# ranks MPI NUMBER PROGRAM [ARGUMENT]...: what they say is in the log. They may take long where others poll beside them: each message
# waits until its rank has a processor.
ranks() {
    local mpi=$1 number=$2
    shift 2
    : >"$log"
    timeout -k 5 300 "$(mpirun_of "$mpi")" -n "$number" bash "$work/rank" "$log" "$@" >>"$log" 2>&1 </dev/null
}

# try NAME MPI NUMBER PROGRAM [ARGUMENT]...: the ranks succeed.
try() {
    local name=$1 status
    shift
    ranks "$@"
    status=$?
    if [[ $status -eq 0 ]]; then
        ok "$name"
    else
        not_ok "$name" "$log"
        note "status $status"
    fi
    return $status
}

# calls MPI NUMBER host|cuda COUNT [CALL]...: mpi_calls.
calls() {
    local mpi=$1 number=$2
    shift 2
    ranks "$mpi" "$number" "$top_builddir/test/mpi/mpi_calls.$mpi" "$@"
}

# What the CPU's touch of GPU memory ended, by the log.
explained() { grep -q 'gdr: .*the CPU touched GPU memory .* in MPI_' "$log"; }

# The document's table: the text of a call's outcome by MPI and size, e.g. "works (4 ranks: message)".
table() { sed -n '/^<!-- table -->$/,/^<!-- end of the table -->$/p' "$top_srcdir/docs/reference/mpi-calls-full.md" | grep '^|'; }

# documented MPI NUMBER SIZE works|message: the calls that do (directly or staged), on so many ranks, by the
# table.
documented() {
    table | awk -F ' *[|] *' -v column="$1, $3" -v ranks="$2 ranks: " -v outcome="$4" '
        NR == 1 { for (i = 1; i <= NF; ++i) if ($i == column) at = i }
        NR > 2 {
            found = $at
            if (found == "-") next # that MPI does not have it
            if (i = index(found, ranks)) found = substr(found, i + length(ranks))
            if ((index(found, "message") == 1) == (outcome == "message")) { gsub(/`/, "", $2); print $2 }
        }'
}
