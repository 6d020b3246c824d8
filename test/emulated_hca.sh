# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The emulated HCA of gdr's tests: softhca, or with GDR_TEST_HCA=mlx5 a ConnectX under the libmlx5 of the machine. To be
# sourced. Sets "emulated_hca", the library to be preloaded, "emulate_hca", the option of ucx-gdr, and "hca_name", the
# devices' name but for the number. Variables of the emulation, such as SOFTHCA_FAULTS, name devices softhca0, softhca1
# and so on in either case.
# shellcheck disable=SC2034 # for those who source this
case ${GDR_TEST_HCA:-softhca} in
softhca) hca_name=softhca emulate_hca=--emulate-hca emulated_hca=$top_builddir/src/emu/softhca/.libs/libsofthca.so ;;
mlx5) hca_name=mlx5_ emulate_hca=--emulate-hca=mlx5 emulated_hca=$top_builddir/src/emu/softmlx5/.libs/libsoftmlx5.so ;;
*)
    echo "GDR_TEST_HCA=$GDR_TEST_HCA is neither softhca nor mlx5"
    exit 99
    ;;
esac
on_softmlx5() { [ "$hca_name" = mlx5_ ]; }
