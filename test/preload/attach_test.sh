#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# libuct_gdr.so.0, preloaded, where no UCX is, and where one comes later: opened by its path, locally, under other
# names; two of them.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
python=$(PATH=/usr/bin:/bin:$PATH command -v python3) || skip_all "no python3"
module=${GDR_TESTED_MODULE:-$module}
export UCX_WARN_UNUSED_ENV_VARS=n
unset UCX_VFS_ENABLE

# ---- processes without a UCX

with() { timeout -k 5 60 env LD_PRELOAD="$module" "$@" 2>&1; }
loaded() { grep -oE '/lib(uc[mspt]|ibverbs|stdc\+\+|cuda)[^/]*$|gdr_module' | grep -v libuct_gdr | sort -u | paste -s -d ' '; }
expect "a process without UCX has nothing else loaded" "" "$(with cat /proc/self/maps | loaded)"
expect "but this library" yes "$(with cat /proc/self/maps | grep -q libuct_gdr && echo yes)"
expect "nor has what a shell starts" "" "$(with sh -c 'cat /proc/self/maps' | loaded)"
expect "an interpreter" "45" "$(with "$python" -c 'print(sum(range(10)))')"
# shellcheck disable=SC2016 # for the inner shell
expect "a shell with a pipe, and env -i in it" "hello 0" \
    "$(with sh -c 'echo hello | cat | while read -r word; do env -i /bin/true; echo "$word $?"; done')"
expect "the loader's errors" "" "$(with ldd /bin/true | grep 'not found')"
printf '#include <stdio.h>\nint main(void) { puts("static"); return 0; }\n' >"$work/static.c"
if ${CC:-cc} -static "$work/static.c" -o "$work/static" 2>/dev/null; then
    expect "a static binary" static "$(with "$work/static")"
else
    skip_case "a static binary" "no static libc"
fi
if [ "$(id -u)" = 0 ] && cp /bin/cat "$work/setuid" && chmod 4755 "$work/setuid" && chmod 755 "$work" &&
    command -v setpriv >/dev/null; then
    # The loader takes no preload with a path into such a program.
    expect "a set-uid program" "" "$(with setpriv --reuid 65534 --clear-groups --regid 65534 "$work/setuid" /proc/self/maps | grep libuct_gdr)"
else
    skip_case "a set-uid program" "needs root and setpriv"
fi

# ---- a UCX that comes later

# ucx_copy DIR SUFFIX: the UCX in use, in DIR, with files that end with SUFFIX; without modules, and it is not to load
# those of the system, which are linked with the system's UCX.
export UCX_MODULE_DIR=$work/none
ucx_lib=$(dirname "$(ldd "$ucx_info" | awk '$1 == "libucp.so.0" { print $3 }')")
ucx_copy() {
    local directory=$work/$1 suffix=$2 library
    mkdir "$directory"
    for library in libucm libucs libuct libucp; do
        cp -L "$ucx_lib/$library.so.0" "$directory/$library$suffix"
    done
}
files() { echo "$work/$1/libucs$2,$work/$1/libuct$2,$work/$1/libucp$2"; }
ucx() { timeout -k 5 60 env LD_PRELOAD="$emulated_hca:$module" LD_LIBRARY_PATH="${path-}:$softcuda" "$python" "$top_srcdir/test/preload/open_ucx.py" "$@" 2>&1; }
both="gdr_cuda gdr_rc gdr_ipc"

expect "opened by path, locally" "$both" "$(ucx "$ucx_lib/libucs.so.0,$ucx_lib/libuct.so.0,$ucx_lib/libucp.so.0")"
ucx_copy copy .so.0
expect "another than the system's" "$both" "$(path=$work/copy ucx "$(files copy .so.0)")"
timeout 60 env LD_PRELOAD="$module" LD_LIBRARY_PATH="$work/copy:$softcuda" "$python" -c "
import ctypes
ctypes.CDLL('$work/copy/libucp.so.0').ucp_config_read(None, None, ctypes.byref(ctypes.c_void_p()))
print(open('/proc/self/maps').read())" >"$work/maps"
expect "and that one alone is there" "$work/copy" \
    "$(grep -oE '/[^ ]*libuc[pstm]\.so[.0-9]*' "$work/maps" | xargs -n 1 dirname | sort -u)"
expect "with the module, and no libibverbs before an HCA is looked for" gdr_module.so \
    "$(grep -oE 'gdr_module\.so|libibverbs[^/]*$' "$work/maps" | sort -u)"

if command -v patchelf >/dev/null; then
    # What auditwheel makes of a wheel's libraries.
    ucx_copy hashed -3f1c9a20.so.0.0.0
    cd "$work/hashed" || exit 99
    for library in ./*.so.0.0.0; do
        patchelf --set-soname "$(basename "$library")" --set-rpath '$ORIGIN' "$library" || exit 99
        for name in libucm libucs libuct libucp; do
            patchelf --replace-needed $name.so.0 $name-3f1c9a20.so.0.0.0 "$library" || exit 99
        done
    done
    cd - >/dev/null || exit 99
    expect "with file names and sonames that nobody knows" "$both" "$(ucx "$(files hashed -3f1c9a20.so.0.0.0)")"
    expect "the module says nothing" "" "$(ucx "$(files hashed -3f1c9a20.so.0.0.0)" | grep -v "$both")"

    # ---- two
    ucx_copy second -second.so.0
    cd "$work/second" || exit 99
    for library in ./*.so.0; do
        patchelf --set-soname "$(basename "$library")" --set-rpath '$ORIGIN' "$library" || exit 99
        for name in libucm libucs libuct libucp; do
            patchelf --replace-needed $name.so.0 $name-second.so.0 "$library" || exit 99
        done
    done
    cd - >/dev/null || exit 99
    two=$(UCX_TLS=gdr,tcp,self ucx "$(files hashed -3f1c9a20.so.0.0.0)" "$(files second -second.so.0)")
    expect "two UCX: the first is served, the other works without" "$both
none" "$(echo "$two" | grep -E '^(gdr_|none)')"
    expect "one line says so, with both paths" 1 \
        "$(echo "$two" | grep -c "WARN  gdr: not used with the UCX of $work/second/libuct-second.so.0: .*$work/hashed/libuct-3f1c9a20.so.0.0.0")"
    expect "two UCX, the other way round" "$both
none" "$(UCX_TLS=gdr,tcp,self ucx "$(files second -second.so.0)" "$(files hashed -3f1c9a20.so.0.0.0)" | grep -E '^(gdr_|none)')"

    # A UCX that is refused: its libucp is not beside its libuct.
    cp -R "$work/second" "$work/torn"
    mkdir "$work/torn/ucp"
    mv "$work/torn/libucp-second.so.0" "$work/torn/ucp"
    patchelf --set-rpath '$ORIGIN/..' "$work/torn/ucp/libucp-second.so.0" || exit 99
    torn=$work/torn/libucs-second.so.0,$work/torn/libuct-second.so.0,$work/torn/ucp/libucp-second.so.0
    two=$(UCX_TLS=gdr,tcp,self ucx "$torn" "$(files hashed -3f1c9a20.so.0.0.0)")
    expect "two UCX, the first of which is refused: the second is served" "none
$both" "$(echo "$two" | grep -E '^(gdr_|none)')"
    expect "one line says why" 1 "$(echo "$two" | grep -c 'WARN  gdr: not used')"
    expect "with both paths" 1 "$(echo "$two" |
        grep -c "gdr: not used: this process mixes two UCX installations, $work/torn/libuct-second.so.0 and $work/torn/ucp/")"
    two=$(UCX_TLS=gdr,tcp,self ucx "$(files hashed -3f1c9a20.so.0.0.0)" "$torn")
    expect "the other way round" "$both
none" "$(echo "$two" | grep -E '^(gdr_|none)')"
else
    skip_case "other sonames, two UCX in one process" "no patchelf"
fi

# shellcheck source=test/ucx_version.sh
. "$top_srcdir/test/ucx_version.sh"
cache='' # UCP's, of registrations
[ "$(ucx_minor)" -ge 16 ] || cache="INFO UCX_RCACHE_ENABLE=n "
expect "in time for UCX's settings" "INFO UCX_MEMTYPE_CACHE=n $cache" "$(UCX_LOG_LEVEL=info UCX_TLS=gdr,tcp path=$work/copy ucx "$(files copy .so.0)" |
    sed -n 's/.*UCX  \(INFO\|WARN\)  gdr: \(UCX_[A-Z_]*=[a-z]\): .*/\1 \2/p' | sort | tr '\n' ' ')"
expect "before UCP reads its configuration" "UCX_TLS=gdr" \
    "$(UCX_GDR_TLS=gdr path=$work/copy ucx --settings "$(files copy .so.0)" | grep '^UCX_TLS=')"
expect "UCX_MODULES switches it off" none "$(UCX_MODULES=^gdr path=$work/copy ucx "$(files copy .so.0)")"
expect "a list of modules without it too" none "$(UCX_MODULES=ib path=$work/copy ucx "$(files copy .so.0)")"
expect "a program linked with UCX" 0 "$(UCX_MODULES=^gdr with "$ucx_info" -d | grep -c gdr)"
expect "opened by the program before its UCX" "$both" "$(
    path=$work/copy
    timeout 60 env LD_PRELOAD="$emulated_hca" LD_LIBRARY_PATH="$path:$softcuda" "$python" - <<END 2>&1
import ctypes, runpy, sys
ctypes.CDLL("$module")
sys.argv = ["open_ucx", "$(files copy .so.0)"]
runpy.run_path("$top_srcdir/test/preload/open_ucx.py")
END
)"

# What the kernel does not show comes after UCP's cache of registrations was left on.
late_hca() {
    timeout 60 env "$@" UCX_TLS=gdr,tcp UCX_VFS_ENABLE=n LD_LIBRARY_PATH="$softcuda" "$python" - <<END 2>&1
import ctypes
ucp = ctypes.CDLL("$ucx_lib/libucp.so.0")
ctypes.CDLL("$module")
ctypes.CDLL("$emulated_hca", ctypes.RTLD_GLOBAL)
params = (ctypes.c_uint64 * 512)(1, 1)  # ucp_params_t: features alone, UCP_FEATURE_TAG
print("status", ucp.ucp_init_version(1, 13, params, None, ctypes.byref(ctypes.c_void_p())))
END
}
if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    skip_case "an HCA that was not there" "there is one"
elif on_softmlx5; then
    skip_case "an HCA that was not there" "softmlx5 is there when it is preloaded, and never later"
elif [ -z "$cache" ]; then
    skip_case "an HCA that was not there" "UCX 1.16 and later"
else
    said='s/.*WARN  gdr: \(no HCA is used\): .*/\1/p; /^status/p'
    expect "an HCA that was not there is not used" "no HCA is used
status 0" "$(late_hca | sed -n "$said")"
    expect "but where the user has switched the cache off" "status 0" "$(late_hca UCX_RCACHE_ENABLE=n | sed -n "$said")"
fi

# ---- a module that is not there

mkdir "$work/alone"
cp "$module" "$work/alone/libuct_gdr.so.0"
expect "without the module behind it: one line" 1 "$(
    LD_PRELOAD=$work/alone/libuct_gdr.so.0 timeout 60 "$ucx_info" -d 2>&1 | grep -c 'WARN  gdr: not used: .*ucx-gdr/gdr_module.so is missing')"
expect "also where the process dies next" 1 "$(
    LD_PRELOAD=$work/alone/libuct_gdr.so.0 timeout 60 "$python" -E -c "
import ctypes, os
ctypes.CDLL('$ucx_lib/libucp.so.0').ucp_config_read(None, None, ctypes.byref(ctypes.c_void_p()))
os._exit(0)" 2>&1 | grep -c 'WARN  gdr: not used: .*ucx-gdr/gdr_module.so is missing')"
mkdir "$work/alone/ucx-gdr"
echo "no library, but some text" >"$work/alone/ucx-gdr/gdr_module.so"
expect "with one that cannot be opened: the loader's reason" 1 "$(
    LD_PRELOAD=$work/alone/libuct_gdr.so.0 timeout 60 "$ucx_info" -d 2>&1 |
        grep -c 'WARN  gdr: not used: .*ucx-gdr/gdr_module.so: [a-zA-Z ]*$')"

done_testing
