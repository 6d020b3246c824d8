#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Order over two HCAs of which one is slow: puts and fences, messages with one tag.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

export SOFTHCA_DEVICES=2
export UCX_MAX_RMA_RAILS=2 # of puts, from UCX 1.14 on, by protocols v2
export UCX_WARN_UNUSED_ENV_VARS=n

# slow HCA: many of its work requests take 10 ms more.
slow() {
    seq -f "softhca$1 delay 10000 at %g" 5 3 100 | tr '\n' ';'
}

for hca in 0 1; do
    SOFTHCA_FAULTS=$(slow $hca)
    export SOFTHCA_FAULTS
    run ucp_order
    run_v2 ucp_order
done
exit $failed
