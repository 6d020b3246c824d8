#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The ways in which the ucx-gdr command makes UCX load the module: which one it takes for which UCX, and that
# they lead there.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

with_plugins=$work/with_plugins
without_plugins=$work/without_plugins
make_ucx "$with_plugins" PLUGIN_PATH
make_ucx "$without_plugins" MODULE_DIR

way() { "$tool" way "$@" 2>&1; }

# The value of variable $1 in the environment that "ucx-gdr env" prints with the further arguments.
value() {
    variable=$1
    shift
    (eval "$("$tool" env --emulate-hca --emulate-gpu "$@")" && eval "echo \"\${$variable-}\"")
}

# ---- which UCX

expect "a program linked with UCX" "$right_way" "$(way ucx_info)"
expect "a program that links none: the UCX found by name" "$right_way" "$(way sh)"
expect "no program at all" "$right_way" "$(way)"
expect "a program that does not exist" "$right_way" "$(way nonesuch)"
expect "a program with a UCX of its own" plugins "$(way "$with_plugins/program")"
expect "a program with an older UCX of its own" preload "$(way "$without_plugins/program")"
expect "found in PATH" plugins "$(PATH=$with_plugins:$PATH way program)"
echo 'touch started' >"$work/script" && chmod +x "$work/script"
expect "a script" "$right_way" "$(cd "$work" && way ./script)"
for ucx in "$with_plugins:plugins" "$without_plugins:preload"; do
    export LD_LIBRARY_PATH="${ucx%:*}:$softcuda"
    expect "LD_LIBRARY_PATH: ${ucx#*:}" "${ucx#*:}" "$(way sh)"
done
export LD_LIBRARY_PATH="$softcuda"
expect "nothing is started" "" "$(find "$work" -name started)"

# ---- what is set

for way in plugins preload; do
    preload=$(value LD_PRELOAD --way $way sh)
    path=$(value UCX_PLUGIN_PATH --way $way sh)
    if [ $way = preload ]; then
        expect "preload: LD_PRELOAD" "$softhca:$module" "$preload"
        expect "preload: no UCX_PLUGIN_PATH" "" "$path"
    else
        expect "plugins: the emulated HCA alone in LD_PRELOAD" "$softhca" "$preload"
        expect "plugins: UCX_PLUGIN_PATH" "$plugins" "$path"
    fi
done
expect "the program's own UCX comes before the module, which would bring another" \
    "$softhca:$without_plugins/libuct.so.0:$module" "$(value LD_PRELOAD "$without_plugins/program")"
expect "UCX_PLUGIN_PATH of the user is kept" "$plugins:/other" \
    "$(UCX_PLUGIN_PATH=/other value UCX_PLUGIN_PATH --way plugins)"
expect "UCX_TLS" gdr "$(value UCX_TLS)"
expect "UCX_TLS of the user is kept" gdr,tcp "$(UCX_TLS=gdr,tcp value UCX_TLS)"
for default in pml=ucx osc=ucx,sm opal_common_ucx_tls=any opal_common_ucx_devices=any; do
    variable=OMPI_MCA_${default%=*}
    expect "Open MPI: $default" "${default#*=}" "$(value "$variable")"
    expect "Open MPI: ${default%=*} of the user is kept" mine "$(export "$variable=mine" && value "$variable")"
done
expect "without the plugin neither way" "$softhca" "$(value LD_PRELOAD --no-plugin)"
expect "nor anything for Open MPI" "" "$(value OMPI_MCA_pml --no-plugin)"
expect "a way that does not exist is refused" \
    "ucx-gdr: --way is preload or plugins, not 'side'" "$("$tool" run --way side true 2>&1)"
expect "and one that is not given" "ucx-gdr: --way is preload or plugins, not ''" "$("$tool" env --way 2>&1)"

# ---- where it leads

run() { "$tool" run --emulate-hca --emulate-gpu "$@" 2>&1; }
devices() { run "$@" ucx_info -d | awk '/Transport: gdr$/ { getline; print $3 }' | paste -s -d ' '; }
loaded() { grep -c libuct_gdr; }
for way in preload plugins; do
    if [ $way = plugins ] && [ $right_way = preload ]; then
        echo "skipped: --way plugins (UCX 1.22 and later; this is 1.$(ucx_minor))"
        continue
    fi
    expect "--way $way: UCX offers both halves" "cuda softhca0:1" "$(devices --way $way)"
done
expect "and so without --way" "cuda softhca0:1" "$(devices)"
expect "ucx-gdr info says the way" \
    "$(case $right_way in preload) echo LD_PRELOAD ;; plugins) echo UCX_PLUGIN_PATH ;; esac)" \
    "$("$tool" info --emulate-hca --emulate-gpu 2>&1 | sed -n 's/^loaded by *//p')"
expect "ucx-gdr info says the UCX" "$(ldd "$ucx_info" | awk '$1 == "libuct.so.0" { print $3 }')" \
    "$("$tool" info --emulate-hca --emulate-gpu 2>&1 | sed -n 's/^UCX .*, //p')"
expect "preloaded into every process" yes "$([ "$(run --way preload cat /proc/self/maps | loaded)" -gt 0 ] && echo yes)"
expect "plugins: not into those without UCX" 0 "$(run --way plugins cat /proc/self/maps | loaded)"

exit $failed
