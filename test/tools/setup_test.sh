#!/bin/bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# "ucx-gdr setup", of an installation in a private copy of this machine's file system: what it does, that gdr is
# there with nothing set, also in MPI calls, that nothing breaks when UCX or gdr is exchanged, and that all is taken back.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

if [[ ${1-} != inside ]]; then
    [[ $(id -u) -eq 0 ]] || skip_all "needs root, for a file system of its own"
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
    rm "$tap_results" && rmdir "$work"
    [[ $status -ne $no_mounts ]] || skip_all "no right to make a mount namespace, or no overlay file systems"
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
[[ -n $ucs && $(ldd "$ucx_info" | awk '$1 == "libucs.so.0" { print $3 }') == "$ucs" ]] || skip_all "another UCX than the loader's is in use"

# Files and links where setup may write, with what is in them.
files() {
    find /etc/ld.so.conf.d "$directory/ucx" "$installed/ucx-gdr" "$HOME" ! -type d -printf '%p %l ' -exec cksum {} \; 2>&1 | sort
}
# Nothing is preloaded but the emulated HCA.
found() { LD_PRELOAD=$emulated_hca "$ucx_info" -d 2>&1 | grep -q "Transport: gdr" && echo yes || echo no; }
# on_ranks MPI PROGRAM [ARGUMENT]...: "staged", "ok" or what it says. Likewise, and the emulated GPU.
on_ranks() {
    local mpi=$1
    shift
    rm -f "$work/statistics"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any \
        UCX_TLS=${UCX_TLS-gdr} UCX_GDR_STATS=$work/statistics TMPDIR=/tmp timeout -k 5 60 "mpirun.$mpi" -n 2 \
        env LD_PRELOAD="$emulated_hca${preload-}" LD_LIBRARY_PATH="$softcuda:$work" "$@" >"$work/log" 2>&1 || {
        head -n 5 "$work/log"
        return
    }
    grep -qs 'mpi_staged_bytes=[1-9]' "$work/statistics" && echo staged || echo ok
}
# mpi_calls MPI host|cuda: some calls, all elements checked.
mpi_calls() { on_ranks "$1" "$top_builddir/test/mpi/mpi_calls.$1" "$2" 1000 MPI_Send MPI_Allreduce MPI_Igather; }
# The program itself has no MPI: a library of it has, as an extension of Python.
mpi_part() { on_ranks "$1" "$work/main" "$2part.$1.so"; }

# Another UCX, where the loader looks first.
come() { cp -L "$directory"/libuc[pstm].so.0 "$directory/libucs_signal.so.0" /usr/local/lib; }
# Where a program's libucs and libucp are from.
parts() {
    ldd "$ucx_info" | awk '/=> / { print $3 } !/=>/ && /\// { print $1 }' | grep -E '/(libucp.so.0|real-libucs.so.0|libucs.so.0)$' |
        grep -v 'front/libucs.so.0$' | xargs -r readlink -f | sed 's|/[^/]*$||' | sort | paste -s -d ' '
}

mpis=()
for mpi in openmpi:libmpi.so.40 mpich:libmpich.so.12; do
    [[ ${GDR_MPI:-yes} = yes ]] && command -v "mpirun.${mpi%:*}" "mpicc.${mpi%:*}" >/dev/null && ldconfig -p | grep -q "${mpi#*:} " || continue
    mpis+=("${mpi%:*}")
    "mpicc.${mpi%:*}" -shared -fPIC -o "$work/part.${mpi%:*}.so" -x c - <<'END' || exit 99
#include <mpi.h>
#include <dlfcn.h>
int run(void);
int run(void)
{
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(cuda, "cuInit");
    int (*retain)(void**, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*set)(void*) = dlsym(cuda, "cuCtxSetCurrent");
    int (*alloc)(unsigned long long*, unsigned long) = dlsym(cuda, "cuMemAlloc_v2");
    int (*fill)(unsigned long long, unsigned, unsigned long) = dlsym(cuda, "cuMemsetD32_v2");
    int (*fetch)(void*, unsigned long long, unsigned long) = dlsym(cuda, "cuMemcpyDtoH_v2");
    void* context;
    unsigned long long in, out;
    unsigned sum = 0;
    if (init(0) || retain(&context, 0) || set(context) || alloc(&in, 4) || alloc(&out, 4) || fill(in, 21, 1))
        return 2;
    MPI_Init(0, 0);
    MPI_Allreduce((void*)in, (void*)out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    fetch(&sum, out, 4);
    MPI_Finalize();
    return sum == 42 ? 0 : 3;
}
END
done
cc -o "$work/main" -x c - -ldl <<'END' || exit 99
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** names)
{
    void* part = dlopen(names[count - 1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = part ? dlsym(part, "run") : NULL;
    if (!run)
        puts(dlerror());
    return run ? run() : 4;
}
END

loader_conf=/etc/ld.so.conf.d/00-ucx-gdr.conf
before=$(files)
expect "gdr is not there by itself" no "$(found)"
# What UCX has besides, of modules too.
others() { "$ucx_info" -d 2>&1 | sed -n '/Transport: gdr/d; s/.*Transport: //p' | sort -u | paste -s -d ' '; }
of_ucx=$(others)
expect "and --status says so" "not attached to this machine's UCX" "$("$command" setup --system --status)"

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
    rm /etc/ld.so.cache # a package manager that brings UCX and gdr at once runs ldconfig at the end
    "$command" setup --system >"$work/said" 2>&1
    expect "$kind: status" 0 $?
    [[ $kind == front || ${#mpis[@]} -eq 0 ]] && lines=1 || lines=2
    expect "$kind: a line for each thing done" $lines "$(wc -l <"$work/said")"
    done_once=$(files)
    case $kind in
        front)
            expect "$kind: gdr is there, with nothing set" yes "$(found)"
            expect "$kind: and what UCX has" "$of_ucx" "$(others)"
            expect "$kind: switched off" no "$(UCX_MODULES=^gdr found)"
            for mpi in "${mpis[@]}"; do
                expect "$kind: $mpi stages GPU memory, with nothing set" staged "$(mpi_calls "$mpi" cuda)"
                expect "$kind: $mpi in a part of the program" staged "$(mpi_part "$mpi" "$work/")"
                expect "$kind: $mpi in a part loaded by name" staged "$(mpi_part "$mpi" "")"
                preload=:$installed/libuct_gdr.so.0:$installed/libgdr_mpi.so.0
                expect "$kind: $mpi and a preload" staged "$(mpi_calls "$mpi" cuda)"
                expect "$kind: $mpi in a part, and a preload" staged "$(mpi_part "$mpi" "$work/")"
                preload=
                expect "$kind: $mpi, gdr switched off" ok "$(UCX_TLS=sm,self UCX_MODULES=^gdr mpi_calls "$mpi" host)"
            done
            ;;
        modules)
            expect "$kind: both links" "$installed/libuct_gdr.so.0 $installed/libuct_gdr.so.0" \
                "$(readlink "$directory/ucx/libuct_gdr.so.0") $(readlink "$directory/ucx/libucs_gdr.so.0")"
            expect "$kind: nothing for the loader but MPIs" 0 "$(cat $loader_conf 2>/dev/null | grep -c 'front$')"
            ;;
    esac
    "$command" setup --system >/dev/null 2>&1
    expect "$kind: twice is once" "$done_once" "$(files)"

    # A UCX that looks for modules itself comes in the place of one that does not, and the other way round.
    if [[ $kind == front ]]; then
        echo PLUGIN_PATH >>"$(readlink -f "$ucs")"
        expect "$kind: another UCX, and gdr is still there" yes "$(found)"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: set up anew for it" 0 "$(cat $loader_conf 2>/dev/null | grep -c 'front$')"
        cp "$work/libucs.kept" "$(readlink -f "$ucs")"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: and back" "$done_once" "$(files)"
    fi

    expect "$kind: --status" 0 "$("$command" setup --system --status >/dev/null 2>&1; echo $?)"
    if [[ $kind == front ]]; then
        # Only the library goes: UCX starts.
        mkdir "$work/gone"
        mv "$installed"/libuct_gdr.so* "$work/gone"
        expect "$kind: UCX without libuct_gdr.so.0" 0 "$("$ucx_info" -v >/dev/null 2>&1; echo $?)"
        mv "$work"/gone/* "$installed"
        rmdir "$work/gone"

        # A UCX comes that the loader finds before: all of it is taken. It goes again, and ours is attached as before.
        expect "$kind: a UCX comes" "/usr/local/lib /usr/local/lib" "$(come; ldconfig; parts)"
        expect "$kind: and starts" 0 "$("$ucx_info" -v >/dev/null 2>&1; echo $?)"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: and is attached to" "yes /usr/local/lib /usr/local/lib" "$(found) $(parts)"
        expect "$kind: --status tells" 1 "$("$command" setup --system --status | grep -c "^in front of libucs.so.0: gdr, and then /usr/local/lib/libucs.so.0")"
        rm /usr/local/lib/libuc[pstm].so.0 /usr/local/lib/libucs_signal.so.0 # nobody has told ldconfig
        expect "$kind: it goes, and the other is taken" "$(readlink -f "$directory") $(readlink -f "$directory")" "$(parts)"
        expect "$kind: with gdr" yes "$(found)"
        ldconfig
        expect "$kind: and after ldconfig" "yes $(readlink -f "$directory") $(readlink -f "$directory")" "$(found) $(parts)"
        "$command" setup --system >/dev/null 2>&1
        expect "$kind: set up anew" "$done_once" "$(files)"
    fi

    # gdr goes without a word.
    mkdir "$work/gone"
    mv "$installed"/libuct_gdr.so* "$installed"/libgdr_mpi.so* "$installed/ucx-gdr" "$work/gone"
    for mpi in "${mpis[@]}"; do
        expect "$kind: $mpi without gdr" ok "$(UCX_TLS=sm,self mpi_calls "$mpi" host)"
    done
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

# What make uninstall leaves: no part of it.
"$command" setup --system >/dev/null 2>&1
make -C "$top_builddir" uninstall >"$work/uninstall.log" 2>&1
expect "uninstalled: nothing for the loader" "" "$(ls -d /etc/ld.so.conf.d/*ucx-gdr* "$installed/ucx-gdr/front/real" 2>/dev/null)"
expect "uninstalled: UCX is what it was" "$of_ucx" "$(others)"
make -C "$top_builddir" install >"$work/install.log" 2>&1 || { tail "$work/install.log"; exit 99; }
ldconfig
before=$(files)

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

done_testing
