#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Device messages, small and large, go over the HCA without a copy: UCX's own table of protocols says
# so (UCX_PROTO_INFO), and what the module counted agrees. Streams and synchronous sends are not
# among them: UCX 1.13 has only eager protocols for those. Protocols v1 have no table: only counts.
# And host messages and puts are short ones, without a request of UCP, up to 3 KiB at least; messages are a rendezvous
# after a fragment at least.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"


# What the tables of $work/log say about operations whose title matches $1, a row each:
# "FIRST LAST DESCRIPTION" for the ranges of sizes. The lines of the two processes are mixed. The title
# is the second cell of a table's first row, or since UCX 1.22 a row of its own below it.
ranges() {
    sort -s -t']' -k2,2 "$work/log" | sed -n 's/^\[[^]]*\] \[[^]]*\] *|/|/p' | awk -F'|' -v title="$1" '
        NF == 3 || $2 ~ /cfg#|ep_cfg/ { wanted = $0 ~ title; next }
        wanted && $2 ~ /^ *[0-9]/ { size = $2; gsub(/ /, "", size); split(size, end, /\.\./)
                 print end[1], (end[2] == "" ? end[1] : end[2]), $3 }'
}

# A number of bytes as the tables write it: 256K, 1M. awk: bytes(text).
bytes='function bytes(text,   factor) {
    factor = text ~ /K$/ ? 1024 : text ~ /M$/ ? 1048576 : text ~ /G$/ ? 1073741824 : 1
    return text == "inf" ? 1e30 : text * factor }'

# The protocol that the tables name for messages of $2 bytes.
protocol() {
    ranges "$1" | awk -v size="$2" "$bytes"'
        bytes($1) <= size && size <= bytes($2) { $1 = $2 = ""; print }' | sort -u
}

# Moves messages of GPU memory, and sets what the module counted: bytes gone by GPUDirect, and copied.
move() {
    rm -f "$work/stats"
    export UCX_GDR_STATS="$work/stats"
    run ucp_transfer --ops "$1" --kinds cuda:cuda --sizes "$2" --window 4 >"$work/log" 2>&1
    unset UCX_GDR_STATS
    copies=$(counted staged_bytes)
    direct=$(counted gpudirect_bytes)
}
counted() {
    awk -v name="$1" '{ for (i = 1; i <= NF; ++i) if ($i ~ "^" name "=") { sub(/.*=/, "", $i); sum += $i } }
        END { print sum + 0 }' "$work/stats"
}

# zero_copy OPERATION TITLE SIZE: moves messages, looks the protocol up, and compares what the module
# counted as gone by GPUDirect with what was moved.
zero_copy() {
    move "$1" "$3"
    found=$(protocol "$2" "$3")
    case $found in
    *pipeline* | *copy-in* | *copy-out* | *emulation* | *short*) problem="a copy is chosen" ;;
    *zero-copy*) problem= ;;
    *) problem="zero-copy is not chosen" ;;
    esac
    [ "$copies" = 0 ] || problem="data was copied"
    [ "$direct" -gt 0 ] || problem="nothing went by GPUDirect"
    expect "$1, $3 bytes: zero-copy" "" "$problem"
    note "$found; $direct bytes by GPUDirect, $copies copied"
}

# expect_v1 OPERATION SIZE: the same without a table.
expect_v1() {
    move "$1" "$2"
    expect "$1, $2 bytes: nothing is copied" 0 "$copies"
    check "$1, $2 bytes: all of it by GPUDirect" [ "$direct" -ge "$2" ]
    note "$direct bytes by GPUDirect"
}

section "protocols v1"
if protocols_v1; then
    for size in 8 127 4097 16384 34603008; do
        expect_v1 put $size
        expect_v1 get $size
    done
    for size in 1048576 34603008; do
        expect_v1 tag $size
        expect_v1 am $size
    done
fi

section "protocols v2"
export UCX_PROTO_INFO=y UCX_PROTO_ENABLE=y
for size in 8 65536 34603008; do
    zero_copy tag "rendezvous data fetch.*into cuda.*from cuda" $size
    zero_copy am "rendezvous data fetch.*into cuda.*from cuda" $size
    zero_copy put "ucp_put.*from cuda.*to cuda" $size
    zero_copy get "ucp_get.*into cuda.*from cuda" $size
done

# On slow ports copies hide behind the wire, and on fast ones they are not much slower.
for rate in 10 25 400; do
    section "$rate Gb/s"
    export SOFTHCA_BANDWIDTH_GBPS=$rate
    zero_copy tag "rendezvous data fetch.*into cuda.*from cuda" 1048576
    zero_copy put "ucp_put.*from cuda.*to cuda" 1048576
    zero_copy get "ucp_get.*into cuda.*from cuda" 1048576
done

# expect_host OPERATION TITLE SIZE WORDS: from and to host memory.
expect_host() {
    run ucp_transfer --ops "$1" --kinds host:host --sizes "$3" --window 4 >"$work/log" 2>&1
    found=$(protocol "$2" "$3")
    case $found in
    *$4*) ok "$1, $3 bytes: $4" ;;
    *) not_ok "$1, $3 bytes: $4" ;;
    esac
    note "$found"
}

if [ "$(ucx_minor)" -ge 16 ]; then # earlier ones compare differently
    tag="tagged message by ucp_tag_send\\* from host" put="ucp_put\\* from host"
    for SOFTHCA_BANDWIDTH_GBPS in 100 400; do
        section "host memory, $SOFTHCA_BANDWIDTH_GBPS Gb/s"
        expect_host tag "$tag" 1024 short
        expect_host tag "$tag" 3072 short
        expect_host tag "$tag" 4097 "eager zero-copy"
        expect_host tag "$tag" 8192 eager
        expect_host tag "$tag" 32768 rendezvous
        expect_host put "$put" 1024 short
        expect_host put "$put" 3072 short
        expect_host put "$put" 16384 zero-copy
    done
fi
done_testing
