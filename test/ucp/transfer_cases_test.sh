#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# On softhca what test/vm/transfer.vm runs on Soft-RoCE: there is no difference.
set -u

# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
# shellcheck source=test/ucp/transfer_cases.sh
. "$top_srcdir/test/ucp/transfer_cases.sh"

transfer_cases
done_testing
