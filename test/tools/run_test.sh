#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr run" and "ucx-gdr env" set, and where it leads.
set -u

# shellcheck source=test/ordinary_user.sh
. "$top_srcdir/test/ordinary_user.sh"
# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

# The value of variable $1 in the environment that "ucx-gdr env" prints with the further arguments.
value() {
    variable=$1
    shift
    (eval "$("$tool" env "$emulate_hca" --emulate-gpu "$@")" && eval "echo \"\${$variable-}\"")
}

# ---- what is set

expect "the emulated HCA, the plugin and the MPI layer in LD_PRELOAD" "$emulated_hca:$module${mpi_layer:+:$mpi_layer}" "$(value LD_PRELOAD)"
expect "what the user preloads stays, behind them" "$emulated_hca:$module${mpi_layer:+:$mpi_layer}:/other.so" "$(LD_PRELOAD=/other.so value LD_PRELOAD 2>/dev/null)"
expect "UCX_GDR_TLS" gdr,sm,self "$(value UCX_GDR_TLS)"
hardware_queues() { # COMMAND [ARGUMENT]...: what it is run with
    sh -x "$tool" run "$emulate_hca" --emulate-gpu "$@" 2>&1 >/dev/null | sed -n 's/^+ export CUDA_DEVICE_MAX_CONNECTIONS=//p'
}
streams=$top_builddir/test/sync/.libs/sync_test
expect "CUDA's settings are left to the user: each hardware queue takes time at start" "" \
    "$(value CUDA_DEVICE_MAX_CONNECTIONS)$(hardware_queues env)"
[ "${GDR_SYNC:-yes}" = no ] || expect "programs with libucx-gdr have hardware queues for streams that wait" 32 "$(hardware_queues "$streams" --gtest_list_tests)"
[ "${GDR_SYNC:-yes}" = no ] || expect "as many as the user says" 4 "$(CUDA_DEVICE_MAX_CONNECTIONS=4 hardware_queues "$streams" --gtest_list_tests)"
if [ "${GDR_SYNC:-yes}" = yes ]; then
    sync=$(cd "$top_builddir/src/sync/.libs" && pwd)
    echo 'int main(void) {}' >"$work/linked.c"
    gcc "$work/linked.c" -o "$work/linked" -Wl,--no-as-needed "$sync/libucx-gdr.so.0" -Wl,--allow-shlib-undefined
    expect "libucx-gdr is found where the loader does not know it" "0 127" "$(
        "$tool" run "$emulate_hca" --emulate-gpu "$work/linked" >/dev/null 2>&1
        found=$?
        "$work/linked" >/dev/null 2>&1
        echo $found $?
    )"
    expect "by the environment, too, behind what the user has" "/mine:$sync" \
        "$(LD_LIBRARY_PATH=/mine value LD_LIBRARY_PATH 2>/dev/null | sed 's/.*softcudart://')"
fi
within() { # COMMAND...: the environment of what "ucx-gdr run" starts by COMMAND
    "$tool" run "$emulate_hca" --emulate-gpu "$@" env 2>/dev/null | grep -v '^_='
}
expect "run by another run: the same" "$(within)" "$(within "$tool" run "$emulate_hca" --emulate-gpu)"
expect "UCX_TLS is left to the user" "" "$(value UCX_TLS)"
expect "UCX_TLS of the user is kept" gdr,tcp "$(UCX_TLS=gdr,tcp value UCX_TLS)"
for default in pml=ucx osc=ucx,sm opal_common_ucx_tls=any opal_common_ucx_devices=any; do
    variable=OMPI_MCA_${default%=*}
    expect "Open MPI: $default" "${default#*=}" "$(value "$variable")"
    expect "Open MPI: ${default%=*} of the user is kept" mine "$(export "$variable=mine" && value "$variable")"
done
for line in OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx,sm UCX_GDR_TLS=gdr,sm,self; do
    expect "the command has $line" "$line" \
        "$("$tool" run "$emulate_hca" --emulate-gpu env 2>/dev/null | grep "^${line%%=*}=")"
done
if [ "${GDR_MPI:-yes}" = yes ]; then
    path=OMPI_MCA_mca_base_component_path
    components=$(cd "$top_builddir/src/openmpi/.libs" && pwd -P)
    in_rank() { export OMPI_COMM_WORLD_RANK=0 && value "$@"; }
    expect "Open MPI finds our components behind its own" "SYSTEM_DEFAULT:$components:USER_DEFAULT" "$(in_rank $path)"
    expect "and behind those of the user" "/mine:$components" "$(export $path=/mine && in_rank $path)"
    expect "once" "/mine:$components" "$(export $path="/mine:$components" && in_rank $path)"
    expect "mpirun does not, which would pass them on to PMIx" "" "$(value $path)"
    expect "nor without the plugin" "" "$(in_rank $path --no-plugin)"
fi
if command -v ibv_devinfo >/dev/null; then
    expect "a program of libibverbs without the plugin gets no GPUs" "" \
        "$("$tool" run "$emulate_hca" --no-plugin ibv_devinfo 2>&1 | grep -E "^ucx-gdr: |${hca_name}0 failed")"
fi
expect "without the plugin the emulated HCA alone" "$emulated_hca" "$(value LD_PRELOAD --no-plugin)"
expect "nor anything for Open MPI" "" "$(value OMPI_MCA_pml --no-plugin)"
expect "devices that are to be emulated are not looked for" "" \
    "$(sh -x "$tool" run "$emulate_hca" --emulate-gpu true 2>&1 | grep -E '^\+ (hca|gpu)_usable')"
expect "an unknown command is named" "2 ucx-gdr: unknown command sideways (see ucx-gdr --help)" \
    "$(said=$("$tool" sideways 2>&1); echo $? "$said")"

# ---- where it leads

run() { "$tool" run "$emulate_hca" --emulate-gpu "$@" 2>&1; }
# Each process takes a millisecond and more: the shell, the loader twice, to learn what the command is linked with, and
# the command.
if strace -o /dev/null true 2>/dev/null; then
    strace -f -e trace=execve -o "$work/processes" "$tool" run "$emulate_hca" --emulate-gpu /bin/true 2>/dev/null
    expect "a command is run by four programs" 4 "$(grep -c 'execve(.*= 0$' "$work/processes")"
fi
devices() { run ucx_info -d | awk '/Transport: gdr$/ { getline; print $3 }' | paste -s -d ' '; }
expect "UCX offers both halves" "cuda ${hca_name}0:1" "$(devices)"
told() { PATH=$1 "$tool" info "$emulate_hca" --emulate-gpu 2>&1 | sed -n 's/^UCX  *//p'; }
version=$("$ucx_info" -v | sed -n 's/^# .*ersion[: ]*//p' | head -n 1)
mkdir "$work/other" "$work/none"
printf '#!/bin/sh\n[ "$1" != -v ] || { echo "# Library version: 9.9.9"; exit; }\nexec %s "$@"\n' "$ucx_info" >"$work/other/ucx_info"
chmod +x "$work/other/ucx_info"
expect "ucx-gdr info says the UCX and its version" "$version, $(ldd "$ucx_info" | awk '$1 == "libucp.so.0" { print $3 }')" "$(told "$PATH")"
expect "that of the library, not of ucx_info" "$version" "$(told "$work/other:$PATH" | sed 's/,.*//')"
ln -s /usr/sbin/* /usr/bin/* /bin/* "$work/none" 2>/dev/null
rm -f "$work/none/ucx_info"
expect "nor is ucx_info needed for it" "$version" "$(told "$work/none" | sed 's/,.*//')"
mkdir "$work/broken"
for library in libucm libucs libuct libucp; do echo "no library" >"$work/broken/$library.so.0"; done
expect "a UCX that cannot be loaded stops no program that needs none" fine \
    "$(LD_LIBRARY_PATH=$work/broken run sh -c 'echo fine')"

done_testing
