# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the scripts share that run other people's programs with the module and without it: where there are
# emulated GPUs, no driver, or a driver without a GPU. Sourced.
# shellcheck disable=SC2034 # used by those who source this

ucx_headers=$UCX_CFLAGS ucx_trees=$UCX_SOURCE_TREES # what begins with UCX_ does not stay
# shellcheck source=test/ucp/environment.sh
. "$top_srcdir/test/ucp/environment.sh"
unset UCX_TLS UCX_VFS_ENABLE UCX_GDR_IPC
for variable in $(env | sed -n 's/^\(OMPI_MCA_[A-Za-z0-9_]*\)=.*/\1/p'); do unset "$variable"; done
# shellcheck source=contrib/lib.sh
. "$top_srcdir/contrib/lib.sh"

[[ ${GDR_SANITIZERS:-none} = none ]] || skip_all "other people's programs have no sanitizer's run-time library"

# Puts the machine into one of the states of "gpus": emulated GPUs, a driver without a GPU, no driver.
without_softcuda=${LD_LIBRARY_PATH#"$softcuda"}
without_softcuda=${without_softcuda#:}
gpus() {
    unset SOFTCUDA_DEVICES LD_LIBRARY_PATH
    case $1 in
        emulated | "without a GPU") export LD_LIBRARY_PATH=$softcuda${without_softcuda:+:$without_softcuda} ;;
        "no driver") [[ -z $without_softcuda ]] || export LD_LIBRARY_PATH=$without_softcuda ;;
    esac
    [[ $1 != "without a GPU" ]] || export SOFTCUDA_DEVICES=0
}
gpu_states=(emulated "without a GPU" "no driver")
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    note "not tried: no driver (this machine has one)"
    unset "gpu_states[2]"
fi

# "y" where UCX has a transport of its own for the HCA: that of some distributions has none.
verbs=$(LD_PRELOAD=$runtime$emulated_hca ucx_info -d 2>/dev/null | sed -n "s/.*Transport: rc_verbs$/y/p" | head -n 1)

# ---- UCX's example programs, of the release in use

# Prints where they are: UCX installs them, packages as documentation, which may have been left out; else in
# the source.
find_examples() {
    local directory tree
    for directory in "$1/share/ucx/examples" "$1/share/doc/libucx-dev/examples"; do
        [[ ! -f $directory/ucp_client_server.c ]] || { echo "$directory" && return; }
    done
    for tree in $ucx_trees $("$top_srcdir/contrib/ucx-source"); do
        [[ ! -f $tree/examples/ucp_client_server.c ]] || { echo "$tree/examples" && return; }
    done
    return 1
}

# Compiles them, in $work; fails with the reason in $work/why where they cannot be had.
build_examples() {
    local libucp prefix examples program before
    libucp=$(ldd "$(command -v ucx_info)" 2>/dev/null | awk '$1 == "libucp.so.0" { print $3 }')
    [[ -n $libucp ]] || { echo "no ucx_info (package ucx-utils)" >"$work/why" && return 1; }
    libucp=$(readlink -f "$libucp")
    prefix=${libucp%/lib*/*} prefix=${prefix%/lib*} # it is in lib, lib64 or lib/ARCHITECTURE
    examples=$(find_examples "$prefix" 2>"$work/log") ||
        { echo "no example programs of $libucp: $(cat "$work/log")" >"$work/why" && return 1; }
    note "examples of $examples, with $libucp"
    [[ ! -f $prefix/include/ucp/api/ucp.h ]] || ucx_headers=-I$prefix/include
    for program in ucp_client_server ucp_hello_world uct_hello_world; do
        before=()
        [[ $program != ucp_client_server ]] || before=(-include "$top_srcdir/test/programs/mended_example.h")
        # shellcheck disable=SC2086 # options
        cc -g "${before[@]}" -DHAVE_CUDA -I"$top_srcdir/test/programs" $CUDA_CFLAGS $ucx_headers "$examples/$program.c" \
            -o "$work/$program" -L"${libucp%/*}" -lucp -luct -lucs -ldl >"$work/log" 2>&1 || {
            not_ok "$program is compiled" "$work/log"
            done_testing
        }
    done
}
