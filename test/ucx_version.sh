# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Which UCX the tests run with, and what it can do. Sourced.

# The minor number of its version.
ucx_minor() {
    ucx_info -v | sed -n 's/^# \(Library v\|V\)ersion:* 1\.\([0-9]*\)\..*/\2/p' | head -n 1
}

# Whether UCP uses protocols v1 here, the default before UCX 1.16. Their put and get have no lists of
# segments, and no way between GPU memory and memory that no HCA registers.
protocols_v1() { [ "${UCX_PROTO_ENABLE-n}" != y ] && [ "$(ucx_minor)" -lt 16 ]; }

# The pairs of kinds of memory that put and get know.
rma_kinds() {
    if protocols_v1; then
        echo host:host,host:cuda,host:managed,cuda:host,cuda:cuda,managed:host,managed:cuda,managed:managed
    else
        echo all
    fi
}
