#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The module as stock UCX loads it: what it exports, what it changes in its host, when it speaks, and how it
# refuses.
set -u
# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"

ucx_info=$(command -v ucx_info) || skip_all "no ucx_info (package ucx-utils)"
# shellcheck source=test/ucx_version.sh
. "$top_srcdir/test/ucx_version.sh"
minor=$(ucx_minor)
module=$top_builddir/src/preload/.libs/libuct_gdr.so.0
late=$top_builddir/test/uct/late_ucp
fake=$top_builddir/test/uct/.libs/libfake_ucp.so

# shellcheck source=test/environment.sh
. "${top_srcdir:?}/test/environment.sh"

cd "$work" || exit 99 # a ucx.conf is looked for here

softcuda=$top_builddir/src/emu/softcuda/.libs
hca=$top_builddir/src/emu/softhca/.libs/libsofthca.so:
gpu() { # COMMAND...: with emulated GPUs
    LD_LIBRARY_PATH="$softcuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
}
with() { LD_PRELOAD=$runtime$hca$module timeout 60 env "$@" 2>&1; } # and an emulated HCA
settings() { sed -n 's/^UCX_\(MEMTYPE_CACHE\|PROTO_ENABLE\|RCACHE_ENABLE\)=/\1=/p' | sort | tr '\n' ' '; }

# ---- the library

exported() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort | paste -s -d ' '; }
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(lib[a-z_]*\).*/\1/p' | paste -s -d ' '; }
served_by=$top_builddir/src/plugin/.libs/gdr_module.so
expect "nothing is exported but the calls of UCX that it listens to, mends or answers" \
    "ucp_init_version ucs_config_parser_fill_opts ucs_memtype_cache_lookup ucs_rcache_region_invalidate uct_iface_open uct_query_components" "$(exported "$module")"
expect "the module behind it exports its entry" "gdr_attach gdr_context_begins gdr_context_ends gdr_iface_opens gdr_look_up_memory" "$(exported "$served_by")"
expect "nothing is linked but libc" libc "$(needed "$module")"
expect "no UCX, libibverbs or CUDA is linked with the module behind it" "" \
    "$(needed "$served_by" | grep -E 'libuc[a-z]|libibverbs|libcu')"
expect "nor is a function of theirs left to be found" "" \
    "$(nm -D --undefined-only "$served_by" | awk '$2 ~ /^(_?ibv|uc[mstp])_/')"
for file in "$module" "$served_by"; do
    expect "${file##*/} cannot be unloaded" 1 "$(readelf -d "$file" | grep -c 'Flags:.*NODELETE')"
done

# ---- preloaded into a process that does not use UCX

# UCX itself has something to say about /run when it is not there: not with UCX_VFS_ENABLE=n.
expect "other programs hear nothing" "" \
    "$(with UCX_LOG_LEVEL=info UCX_VFS_ENABLE=n UCX_GDR_STATS=- /bin/true)"
expect "the environment of children is as it was" "" "$(with sh -c 'env | grep ^UCX_')"

# ---- host preparation

stock_proto=y
[ "$minor" -ge 16 ] || stock_proto=n
stock="MEMTYPE_CACHE=try PROTO_ENABLE=$stock_proto RCACHE_ENABLE=try "
cache=try # UCP's, of registrations
[ "$minor" -ge 16 ] || cache=n
prepared="MEMTYPE_CACHE=n PROTO_ENABLE=$stock_proto RCACHE_ENABLE=$cache "
expect "UCX without the module" "$stock" "$("$ucx_info" -c | settings)"
expect "UCX with it and a GPU" "$prepared" "$(gpu with "$ucx_info" -c | settings)"
# shellcheck disable=SC2097,SC2098 # for gpu's command, not for gpu
expect "with it and a driver without a GPU" "$stock" "$(SOFTCUDA_DEVICES=0 gpu with "$ucx_info" -c | settings)"
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    expect "with it and no driver" "$stock" "$(with "$ucx_info" -c | settings)"
    everything() { "$ucx_info" -c -f 2>&1; }
    everything >without
    LD_PRELOAD=$runtime$module everything | sed '/^# *gdr/,/^$/d; /GDR/d' >with
    expect "no other variable has another value" "$(grep ^UCX_ without)" "$(grep ^UCX_ with)"
fi
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    expect "with it and a GPU, and no HCA" "MEMTYPE_CACHE=n PROTO_ENABLE=$stock_proto RCACHE_ENABLE=try " \
        "$(hca='' gpu with "$ucx_info" -c | settings)"
fi
# Where rdma-core looks for HCAs.
mkdir -p sysfs/class/infiniband/mlx5_0
expect "and with one in another SYSFS_PATH" "$prepared" \
    "$(hca='' gpu with SYSFS_PATH="$PWD/sysfs/" "$ucx_info" -c | settings)"
expect "what the user gives stays" "MEMTYPE_CACHE=y PROTO_ENABLE=n RCACHE_ENABLE=try " \
    "$(gpu with UCX_MEMTYPE_CACHE=y UCX_PROTO_ENABLE=n UCX_RCACHE_ENABLE=try "$ucx_info" -c | settings)"
echo "UCX_PROTO_ENABLE=n" >ucx.conf
expect "also when it is given in a ucx.conf" "MEMTYPE_CACHE=n PROTO_ENABLE=n RCACHE_ENABLE=$cache " \
    "$(gpu with "$ucx_info" -c | settings)"
echo "UCX_TLS=tcp" >ucx.conf
expect "UCX_TLS in a ucx.conf leaves gdr out" "$stock" "$(gpu with "$ucx_info" -c | settings)"
rm ucx.conf
expect "UCX_TLS leaves gdr out" "$stock" "$(gpu with UCX_TLS=tcp,self "$ucx_info" -c | settings)"
expect "UCX_TLS names gdr" "$prepared" "$(gpu with UCX_TLS=gdr,tcp "$ucx_info" -c | settings)"

tls() { "$@" "$ucx_info" -c | sed -n 's/^UCX_TLS=//p'; }
expect "UCX_GDR_TLS is what UCX_TLS is by default" gdr "$(tls gpu with UCX_GDR_TLS=gdr)"
ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || expect "not without a GPU" all "$(tls with UCX_GDR_TLS=gdr)"
[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
    expect "not without an HCA" all "$(hca='' tls gpu with UCX_GDR_TLS=gdr)"
expect "not where the user has set that" tcp,self "$(tls gpu with UCX_GDR_TLS=gdr UCX_TLS=tcp,self)"
echo "UCX_TLS=tcp" >ucx.conf
expect "nor in a ucx.conf" tcp "$(tls gpu with UCX_GDR_TLS=gdr)"
rm ucx.conf
mkdir -p own/ucx
for library in ucm ucs uct ucp; do
    cp -L "$(ldd "$ucx_info" | awk -v name="lib$library.so.0" '$1 == name { print $3 }')" own
done
of_own() { LD_LIBRARY_PATH="$PWD/own${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"; }
expect "and with a UCX of one's own" gdr "$(tls of_own gpu with UCX_GDR_TLS=gdr)"
touch own/ucx/libuct_cuda.so.0
expect "but not in one that has CUDA" all "$(tls of_own gpu with UCX_GDR_TLS=gdr)"
expect "which has gdr all the same" "$prepared" "$(of_own gpu with UCX_GDR_TLS=gdr "$ucx_info" -c | settings)"

said() { sed -n 's/.*UCX  \(INFO\|WARN\)  gdr: \(UCX_[A-Z_]*=[a-z]\): .*/\1 \2/p' | sort | tr '\n' ' '; }
expect "one line for each change" \
    "INFO UCX_MEMTYPE_CACHE=n $([ $cache = try ] || echo "INFO UCX_RCACHE_ENABLE=n ")" \
    "$(gpu with UCX_LOG_LEVEL=info "$ucx_info" -d | said)"
expect "none at the default level" "" "$(gpu with "$ucx_info" -d | grep 'UCX  INFO')"
expect "CUDA is not started in a process that does not use UCX" 0 \
    "$(gpu with SOFTCUDA_STATS=1 /bin/sh -c : | grep -c cuInit)"

# ---- components and variables

expect "UCX_GDR_STATS is documented" 1 "$(with "$ucx_info" -f | grep -c '^UCX_GDR_STATS=$')"
expect "no variable is unknown to UCX" "" \
    "$(with UCX_GDR_STATS=stats UCX_GDR_TLS=gdr UCX_GDR_RC_SEG_SIZE=8k "$ucx_info" -d | grep 'unused env')"
expect "one line of statistics from a process that uses UCX" 1 \
    "$(grep -c '^gdr pid=[0-9]* gpudirect_bytes=0 staged_bytes=0 host_bytes=0 gpudirect_ops=0 staged_ops=0 ipc_bytes=0 ipc_ops=0 registrations=0 mpi_direct_bytes=0 mpi_staged_bytes=0 mpi_gpu_bytes=0$' stats)"
expect "statistics that cannot be written are an error" 1 \
    "$(with UCX_GDR_STATS=/nonexistent/stats "$ucx_info" -d | grep -c 'gdr: UCX_GDR_STATS=/nonexistent/stats: No such file')"

mkdir "$work/ucx-gdr"
cp "$served_by" "$work/ucx-gdr/gdr_module.so"
cp "$module" "$work/libuct_gdr_copy.so"
twice=$(LD_PRELOAD=$runtime$module:$work/libuct_gdr_copy.so timeout 60 "$ucx_info" -f 2>&1)
expect "loaded from two paths it registers once" 1 "$(echo "$twice" | grep -c '^UCX_GDR_STATS=$')"

# ---- other ways of being loaded

ours() { grep -c '^gdr_'; } # components
alone() { LD_PRELOAD=$runtime$hca timeout 60 env "$@" 2>&1; }
components=$top_builddir/test/uct/components
rm -f stats
with UCX_GDR_STATS=stats "$components" >/dev/null
expect "no statistics from a forked child that used no UCX" 1 "$(grep -c '^gdr pid=' stats)"
expect "nothing without it" 0 "$(alone "$components" | ours)"
expect "opened by the program" 3 "$(alone "$components" "$module" | ours)"
expect "opened by the program, in time" "MEMTYPE_CACHE=n " "$(gpu alone "$components" "$module" | settings)"
expect "opened by the program, without a driver" "MEMTYPE_CACHE=try " "$(alone "$components" "$module" | settings)"
expect "opened twice" 3 "$(alone "$components" "$module" "$work/libuct_gdr_copy.so" | ours)"
expect "preloaded and opened" 3 "$(with "$components" "$work/libuct_gdr_copy.so" | ours)"
expect "linked with the program" 3 "$(alone "$top_builddir/test/uct/components_linked" | ours)"
expect "without a change to the settings when UCX_TLS leaves it out" "$stock" \
    "$(gpu with UCX_TLS=^gdr "$ucx_info" -c | settings)"

if [ "$minor" -lt 22 ]; then
    skip_case "directories of plugins" "UCX 1.22 and later"
else
    plugins=$top_builddir/src/preload/plugins
    mkdir late
    ln -s "$module" late/libuct_gdr.so.0
    for variable in UCX_PLUGIN_PATH UCX_MODULE_DIR; do
        expect "found by $variable" 3 "$(alone "$variable=$plugins" "$components" | ours)"
        expect "and in time" "$prepared" "$(gpu alone "$variable=$plugins" "$ucx_info" -c | settings)"
    done
    expect "found twice" 3 "$(UCX_PLUGIN_PATH=$plugins with "$components" | ours)"
    expect "switched off" 0 "$(alone "UCX_PLUGIN_PATH=$plugins" UCX_MODULES=^gdr "$components" | ours)"
    expect "and by UCP amid the making of a context" 0 \
        "$(gpu alone "UCX_PLUGIN_PATH=$work/late" "$ucx_info" -p -u t | grep -c 'gdr: not used')"
fi

# ---- the user's word for the series

expect "UCX_GDR_ABI is documented" 1 "$(with "$ucx_info" -f | grep -c '^UCX_GDR_ABI=auto$')"
expect "the series by force" 3 "$(with "UCX_GDR_ABI=force:1.$minor" "$components" | ours)"
expect "no such series" 1 \
    "$(with UCX_GDR_ABI=force:1.2 "$ucx_info" -d | grep -c 'gdr: .*UCX_GDR_ABI=force:1.2 is neither auto nor force:VERSION')"

# ---- refusal: libfake_ucp.so answers for libucp, from another directory

refuse() { LD_PRELOAD=$runtime$fake:$module timeout 60 env "$@" 2>&1; }
expect "refusal is one line" 1 "$(refuse "$ucx_info" -d | grep -c 'WARN  gdr: not used: this process mixes two UCX')"
expect "and registers nothing" 0 "$(refuse "$ucx_info" -f | grep -c GDR_)"
expect "and changes nothing" "$stock" "$(gpu refuse "$ucx_info" -c | settings)"
expect "and leaves UCX working" 1 "$(refuse "$ucx_info" -d | grep -c 'Memory domain: self')"
expect "other programs hear nothing of it" "" "$(refuse /bin/true)"
expect "a program that opens UCP later does" 1 \
    "$(refuse "$late" | grep -c 'WARN  gdr: not used: this process mixes two UCX')"
expect "and without refusal nothing" "loaded" "$(with "$late")"

done_testing
