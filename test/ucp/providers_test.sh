#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# HCAs of all kinds (SOFTHCA_PROFILE). Each is used, by stock ucx_perftest and with every byte compared, or it is left
# out: one line then says why, and a job that has another way, tcp or an HCA beside it, takes that.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
! on_softmlx5 || skip_all "the emulated HCA answers as other providers do; libmlx5 is one of its own"
# shellcheck source=test/ucp/profiles.sh
. "$top_srcdir/test/ucp/profiles.sh"
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"
command -v ucx_perftest >/dev/null || skip_all "no ucx_perftest (package ucx-utils)"

launch=(env "LD_PRELOAD=$runtime$emulated_hca:$module")
messages=tag,am,stream
sizes=0,1,8,63,4097,65536

# perftest MEMORY: stops at the first that fails.
perftest() {
    : >"$work/pairs"
    for test in "tag_lat -s 8" "tag_bw -s 100000" "ucp_am_lat -s 8" "ucp_am_bw -s 100000" "ucp_put_lat -s 8" \
        "ucp_put_bw -s 100000" "ucp_get -s 8" "stream_bw -s 100000"; do
        # shellcheck disable=SC2086 # words
        perftest_pair "$work/pair" 60 -t $test -n 20 -w 2 -m "$1" || return
        cat "$work"/pair.* >>"$work/pairs"
    done
}

# transfers OPS KIND...: every byte.
transfers() {
    timeout -k 5 100 "${launch[@]}" "$programs/ucp_transfer" --ops "$1" --kinds "$2" --sizes $sizes >"$work/transfer" 2>&1
}

# says NAME TEXT FILE: gdr says so in one line for each of two processes, and nothing else of HCAs.
says() {
    expect "$1" "2 2" "$(grep -cE "$2" "$3") $(grep -cE 'gdr: .*(no HCA|do without|RC interface)' "$3")"
}

# used PROFILE
used() {
    export SOFTHCA_PROFILE=$1
    section "$1"
    check "ucx_perftest, host memory" perftest host
    check "ucx_perftest, GPU memory" perftest cuda
    check "every byte" transfers $messages,put,get host:host,cuda:cuda
    expect "without a word" "" "$(grep -hE 'WARN|ERROR' "$work/transfer" "$work/pairs")"
}

# left_out PROFILE TEXT: the line that gdr gives the reason in.
left_out() {
    export SOFTHCA_PROFILE=$1
    section "$1"
    check "not over gdr alone" fails transfers tag host:host
    # UCX's protocols v1 have no put of GPU memory over tcp.
    UCX_TLS=gdr,tcp,self check "over tcp" transfers $messages host:host,cuda:cuda
    says "the reason" "gdr: .*$2" "$work/transfer"
    UCX_TLS=gdr,tcp,self check "put and get over tcp" transfers put,get host:host
    SOFTHCA_PROFILE="$1;cx7" check "by another HCA" transfers $messages,put,get host:host,cuda:cuda
    expect "without a word" "" "$(grep -E 'WARN|ERROR' "$work/transfer")"
}

for profile in "${used_profiles[@]}"; do
    # No message finds a receive queue of its own empty.
    [[ $profile != e810 ]] || export UCX_GDR_RC_RNR_RETRY_COUNT=0
    used "$profile"
    unset UCX_GDR_RC_RNR_RETRY_COUNT
done
for profile in "${!left_out_profiles[@]}"; do
    left_out "$profile" "${left_out_profiles[$profile]}"
done
if extended; then
    used softhca
    used cx7,link_layer=ethernet
    used cx8xdr
    used thor,atomics=refused
    used cx7,inline=refuse,max_inline=0
    used cx7,last_wqe=no
    used softhca,resize_cq=no
    used softhca,resize_cq=efault
    used cx3,resize_cq=does_nothing
    used softhca,max_srq=0
    left_out softhca,rc=no "softhca0:1 has no RC queue pairs"
    left_out softhca,ah=silent "softhca0:1 has no usable GID.*(Operation not supported)"

    # What is not tried when the HCA is looked at costs a worker this HCA alone.
    section "softhca,max_cqe=300"
    export SOFTHCA_PROFILE=softhca,max_cqe=300
    UCX_TLS=gdr,tcp,self check "over tcp" transfers $messages host:host,cuda:cuda
    says "the reason" "gdr: a worker has to do without softhca0:1: ibv_create_cq" "$work/transfer"
    SOFTHCA_PROFILE="softhca,max_cqe=300;cx7" check "by another HCA" transfers $messages,put,get host:host,cuda:cuda
fi
done_testing
