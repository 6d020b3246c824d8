#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Tag messages between all kinds of memory.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"

small=0,1,7,8,63,4095,4097,65536
large=1048576,34603008
run ucp_transfer --ops tag,tag_unexpected,tag_sync --kinds all --sizes $small
run ucp_transfer --ops tag --kinds all --sizes $large
run ucp_transfer --ops tag_unexpected,tag_sync --kinds host:host,cuda:cuda --sizes $large
run ucp_transfer --ops tag --kinds cuda:cuda --sizes 8,65536 --window 64 --iterations 10
done_testing
