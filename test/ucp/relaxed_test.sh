#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Which memory is registered with relaxed ordering of PCIe, by both protocols: what this side reads into, by keys of
# which peers have none.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export UCX_RNDV_THRESH=0 UCX_ZCOPY_THRESH=0
for protocols in n y; do
    export UCX_PROTO_ENABLE=$protocols
    for memory in host cuda; do
        section "$memory, UCX_PROTO_ENABLE=$protocols"
        run ucp_relaxed "$memory" none # an emulated HCA gains nothing
        UCX_GDR_RC_RELAXED_ORDERING=n run ucp_relaxed "$memory" none
        UCX_GDR_RC_RELAXED_ORDERING=y run ucp_relaxed "$memory" some
    done
done
done_testing
