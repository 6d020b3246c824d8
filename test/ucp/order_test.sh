#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Order over two HCAs of which one is down now and then: puts and fences, messages with one tag.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export SOFTHCA_DEVICES=2
export UCX_MAX_RMA_RAILS=2 # of puts, from UCX 1.14 on, by protocols v2
export UCX_WARN_UNUSED_ENV_VARS=n

for hca in 0 1; do
    section "softhca$hca is down now and then"
    export SOFTHCA_FAULTS="softhca$hca down 200 at 8; softhca$hca down 200 at 12; softhca$hca down 200 at 100"
    run ucp_order
    run_v2 ucp_order
done
done_testing
