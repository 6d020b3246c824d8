# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# HCAs as other providers make them (SOFTHCA_PROFILE): those that gdr uses, and those that it leaves out, with what the
# line says that gives the reason. Sourced. GDR_TEST_EXTENT=all: all of them, else one for each thing that went wrong once.

used_profiles=(azure_vf thor hfi1 e810 relaxed_only)
no_ud="softhca0:1 has no UD queue pairs.*: Operation not supported"
declare -A left_out_profiles=([hip08]=$no_ud [efa]="softhca0 is of a transport of its own.*UCX_TLS=srd" [qedr]=$no_ud)
if extended; then
    used_profiles+=(cx7 cx3 hip09 ionic pvrdma)
    left_out_profiles+=([mana]=$no_ud [iwarp]="softhca0 speaks iWARP")
fi
