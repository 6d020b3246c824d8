#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Streams between all kinds of memory.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

run ucp_transfer --ops stream --kinds all
run ucp_transfer --ops stream --kinds cuda:cuda --sizes 8,65536 --window 64 --iterations 10
done_testing
