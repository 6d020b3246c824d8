#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# mpi4py's own tests with Open MPI.
set -u
mpi=openmpi
# shellcheck source=test/mpi/mpi4py_suite.sh
. "$top_srcdir/test/mpi/mpi4py_suite.sh"
