#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Messages of several segments at odd addresses. What UCX 1.13 itself cannot do is left out: put and
# get of segments that fit one buffer copy, active messages by rendezvous, streams from managed memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

kinds=host:host,host:cuda,cuda:host,cuda:cuda
layouts=iov:iov,iov:contig,contig:iov
sizes=0,1,7,8,63,4095,4097,65536,1048576
run ucp_transfer --ops tag,am,am_eager,stream --kinds $kinds --layouts $layouts --sizes $sizes
run ucp_transfer --ops tag,am --kinds managed:cuda,cuda:managed --layouts iov:iov --sizes $sizes
# Protocols v1 look for a key behind a ready-to-send that has none: receive buffers that are used again have bytes there.
run ucp_transfer --ops tag,tag_unexpected,tag_sync --kinds host:managed,cuda:managed,managed:managed --layouts iov:contig \
    --sizes 70000,215000 --iterations 20
run ucp_transfer --ops tag,stream --kinds cuda:cuda --layouts iov:iov --sizes 34603008
# Lists in put and get are protocols v2's.
run_v2 ucp_transfer --ops put,get --kinds $kinds --layouts iov:contig --sizes 65536,1048576,34603008
done_testing
