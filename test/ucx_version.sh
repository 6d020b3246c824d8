# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Which UCX the tests run with. Sourced.

# The minor number of its version.
ucx_minor() {
    ucx_info -v | sed -n 's/^# \(Library v\|V\)ersion:* 1\.\([0-9]*\)\..*/\2/p' | head -n 1
}
