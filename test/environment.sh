# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The environment of stock programs in tests. To be sourced first. Sets "runtime", the beginning of LD_PRELOAD: programs
# without sanitizers need it to load libraries built with them.

runtime=
case ${GDR_SANITIZERS:-none} in
*address*) runtime=$(${CXX:-c++} -print-file-name=libasan.so):$(${CXX:-c++} -print-file-name=libubsan.so): ;;
*undefined*) runtime=$(${CXX:-c++} -print-file-name=libubsan.so): ;;
*thread*) runtime=$(${CXX:-c++} -print-file-name=libtsan.so): ;;
esac
# UCX keeps memory from its start until the process ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# The tests must not depend on the caller's settings.
for variable in $(env | sed -n 's/^\(UCX_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$variable"; done
