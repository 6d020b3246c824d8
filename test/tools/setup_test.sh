#!/bin/bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr setup", of an installation in a private copy of this machine's file system: what it does, that gdr is
# there with nothing set, that nothing breaks when UCX or gdr is exchanged, and that all is taken back.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

skip() { echo "$*"; exit 77; }

if [[ ${1-} != inside ]]; then
    [[ $(id -u) -eq 0 ]] || skip "needs root, for a file system of its own"
    trap - EXIT # in a mount namespace of its own what is mounted on it goes by itself
    no_mounts=3
    unshare --mount --propagation private "$BASH" -uc '
        root=$1/root
        mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" "$root" &&
            mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root" || exit "$3"
        for directory in /proc /sys /dev "$top_srcdir" "$top_builddir"; do
            mkdir -p "$root$directory" && mount --rbind "$directory" "$root$directory" || exit "$3"
        done
        exec chroot "$root" "$2" inside' setup_test "$work" "$(readlink -f "$0")" $no_mounts
    status=$?
    rmdir "$work"
    [[ $status -ne $no_mounts ]] || skip "no right to make a mount namespace, or no overlay file systems"
    exit $status
fi

# ---- in the copy

make -C "$top_builddir" install >"$work/install.log" 2>&1 || { tail "$work/install.log"; exit 99; }
installed=$(sed -n "s/^libdir='\(.*\)'/\1/p" "$tool")
command=$(sed -n 's/^prefix = //p' "$top_builddir/Makefile")/bin/ucx-gdr
ldconfig
unset LD_LIBRARY_PATH UCX_TLS
export HOME=$work/home
mkdir "$HOME"
ucs=$(ldconfig -p | awk '$1 == "libucs.so.0" { print $NF; exit }')
directory=${ucs%/*}
[[ -n $ucs && $(ldd "$ucx_info" | awk '$1 == "libucs.so.0" { print $3 }') == "$ucs" ]] || skip "another UCX than the loader's is in use"

# Files and links where setup may write, with what is in them.
files() {
    find /etc/ld.so.conf.d "$directory/ucx" "$installed/ucx-gdr" "$HOME" ! -type d -printf '%p %l ' -exec cksum {} \; 2>&1 | sort
}
# Nothing is preloaded but the emulated HCA.
found() { LD_PRELOAD=$softhca "$ucx_info" -d 2>&1 | grep -q "Transport: gdr" && echo yes || echo no; }
loader_conf=/etc/ld.so.conf.d/00-ucx-gdr.conf
before=$(files)
expect "gdr is not there by itself" no "$(found)"

# The system's UCX, or one that has no modules directory to look into; then one that has.
for kind in front modules; do
    cp -L "$ucs" "$work/libucs.kept"
    if [[ $kind == modules ]]; then
        cp --remove-destination "$work/libucs.kept" "$(readlink -f "$ucs")"
        echo PLUGIN_PATH >>"$(readlink -f "$ucs")" # by which setup tells them
    elif grep -q PLUGIN_PATH "$ucs"; then
        continue
    fi
    original=$(files)
    "$command" setup --system >"$work/said" 2>&1
    expect "$kind: status" 0 $?
    expect "$kind: one line" 1 "$(wc -l <"$work/said")"
    done_once=$(files)
    case $kind in
        front)
            expect "$kind: gdr is there, with nothing set" yes "$(found)"
            expect "$kind: switched off" no "$(UCX_MODULES=^gdr found)"
            ;;
        modules)
            expect "$kind: both links" "$installed/libuct_gdr.so.0 $installed/libuct_gdr.so.0" \
                "$(readlink "$directory/ucx/libuct_gdr.so.0") $(readlink "$directory/ucx/libucs_gdr.so.0")"
            expect "$kind: nothing for the loader" "" "$(find $loader_conf 2>/dev/null)"
            ;;
    esac
    "$command" setup --system >/dev/null 2>&1
    expect "$kind: twice is once" "$done_once" "$(files)"

    # A UCX that looks for modules itself comes in the place of one that does not, and the other way round.
    if [[ $kind == front ]]; then
        echo PLUGIN_PATH >>"$(readlink -f "$ucs")"
        expect "$kind: another UCX, and gdr is still there" yes "$(found)"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: set up anew for it" "" "$(find $loader_conf 2>/dev/null)"
        cp "$work/libucs.kept" "$(readlink -f "$ucs")"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: and back" "$done_once" "$(files)"
    fi

    # gdr goes without a word.
    mkdir "$work/gone"
    mv "$installed"/libuct_gdr.so* "$installed/ucx-gdr" "$work/gone"
    expect "$kind: UCX without gdr" 0 "$("$ucx_info" -v >/dev/null 2>&1; echo $?)"
    expect "$kind: and says nothing" 0 "$("$ucx_info" -d 2>&1 | grep -c gdr)"
    mv "$work"/gone/* "$installed"
    rmdir "$work/gone"

    "$command" setup --system --undo >"$work/said" 2>&1
    expect "$kind: undone" "$original" "$(files)"
    expect "$kind: and gdr is gone" no "$(found)"
    "$command" setup --system --undo >"$work/said" 2>&1
    expect "$kind: nothing is left to undo" "" "$(cat "$work/said")"
    cp --remove-destination "$work/libucs.kept" "$(readlink -f "$ucs")"
done

touch "$directory/ucx/libuct_gdr.so.0"
echo PLUGIN_PATH >>"$(readlink -f "$ucs")"
original=$(files)
"$command" setup --system >/dev/null 2>&1
expect "somebody else's file is an error" 1 $?
expect "and nothing is done" "$original" "$(files)"
rm "$directory/ucx/libuct_gdr.so.0"
cp "$work/libucs.kept" "$(readlink -f "$ucs")"

# ---- a user

"$command" setup --user >/dev/null 2>&1
expect "user: Open MPI's layers" "opal_common_ucx_devices=any opal_common_ucx_tls=any osc=ucx,sm pml=ucx" \
    "$(grep -v '^#' "$HOME/.openmpi/mca-params.conf" | sort | paste -s -d ' ')"
"$command" setup --user --undo >/dev/null
expect "user: undone" "$before" "$(files)"
expect "user: without a directory of Open MPI's either" "" "$(ls -A "$HOME")"
mkdir "$HOME/.openmpi"
printf 'btl = tcp\n pml = ob1' >"$HOME/.openmpi/mca-params.conf" # no newline at the end
own=$(cat "$HOME/.openmpi/mca-params.conf")
"$command" setup --user >/dev/null 2>&1
"$command" setup --user >/dev/null 2>&1
expect "user: own settings are kept" " pml = ob1" "$(grep pml "$HOME/.openmpi/mca-params.conf")"
expect "user: twice is once" 1 "$(grep -c osc "$HOME/.openmpi/mca-params.conf")"
echo 'mpi_show_handle_leaks = 1' >>"$HOME/.openmpi/mca-params.conf"
"$command" setup --user --undo >/dev/null
expect "user: own settings stay" "$own
mpi_show_handle_leaks = 1" "$(cat "$HOME/.openmpi/mca-params.conf")"

"$command" setup --user >/dev/null 2>&1
sed -i '/setup --user: end/d' "$HOME/.openmpi/mca-params.conf"
echo 'btl_tcp_if_include = eth0' >>"$HOME/.openmpi/mca-params.conf"
own=$(cat "$HOME/.openmpi/mca-params.conf")
expect "user: a mark is missing" 1 "$("$command" setup --user --undo >/dev/null 2>&1; echo $?)"
expect "user: so nothing is removed" "$own" "$(cat "$HOME/.openmpi/mca-params.conf")"
expect "user: nor added" 1 "$("$command" setup --user >/dev/null 2>&1; echo $?)"

expect "neither system nor user" 2 "$("$command" setup >/dev/null 2>&1; echo $?)"
if command -v setpriv >/dev/null; then
    expect "the system is root's" 1 \
        "$(setpriv --reuid 65534 --clear-groups "$command" setup --system >/dev/null 2>&1; echo $?)"
fi

exit $failed
