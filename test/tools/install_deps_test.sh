#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# contrib/install-deps on a machine that lacks something, and configure on one without a CUDA toolkit: package managers and
# indexes are stand-ins.
set -u

# shellcheck source=test/lib.sh
. "$top_srcdir/test/lib.sh"
[ "${GDR_SANITIZERS:-none}" = none ] || skip_all "nothing of it is compiled"
python3 -m pip --version >/dev/null 2>&1 || skip_all "no pip"
root=$(cd "$top_srcdir" && pwd)

# A machine without a CUDA toolkit and GoogleTest, with an apt-get that knows $known and writes down what it is to do.
mkdir -p "$work/tree/contrib" "$work/bin" "$work/wheels"
cp "$root/contrib/lib.sh" "$work/tree/contrib"
sed "s|/usr/local/cuda|$work/none|; s|CUDA_HOME\"} \(.*\) /usr |CUDA_HOME\"} \1 |; s/pkg-config --exists gtest gmock/false/" \
    "$root/contrib/install-deps" >"$work/tree/contrib/install-deps"
chmod +x "$work/tree/contrib/install-deps"
cat >"$work/bin/apt-get" <<'END_OF_FILE'
#!/bin/sh
case $* in
    *--print-uris*) printf "'http://mirror/%s' %s 1000000 SHA256:0\\n" libgtest-dev libgtest-dev.deb libgmock-dev libgmock-dev.deb ;;
    *) echo "apt-get $*" >>"$calls" ;;
esac
END_OF_FILE
cat >"$work/bin/apt-cache" <<'END_OF_FILE'
#!/bin/sh
case " $known " in *" $2 "*) echo "Package: $2" ;; esac
END_OF_FILE
printf '#!/bin/sh\necho "$user"\n' >"$work/bin/id"
chmod +x "$work"/bin/*
export calls=$work/calls known="g++ make libgtest-dev libgmock-dev" user=0
export PATH=$work/bin:$PATH HOME=$work/home XDG_CACHE_HOME=$work/cache PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/wheels
unset CUDA_HOME
mkdir "$HOME"
cache=$work/cache/ucx-gdr/cuda

install_deps() { # its words go to $work/said
    : >"$calls"
    (cd "$work/tree" && contrib/install-deps) >"$work/said" 2>&1
    status=$?
}
said() { if grep -qF -e "$2" "$work/said"; then ok "$1"; else not_ok "$1" "$work/said"; fi; }

install_deps
expect "where the headers are not to be had nothing is installed" "1 apt-get update -q" "$status $(cat "$calls")"
said "and it says so" "neither pip nor the package manager has it; nothing else was installed"

# NVIDIA's packages: the directories in which they have what is needed.
python3 - "$work/wheels" <<'END_OF_FILE'
import sys, zipfile
def wheel(name, version, files):
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-{version}-py3-none-any.whl", "w") as packed:
        info = f"{name}-{version}.dist-info"
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
        for file, text in files.items():
            packed.writestr("nvidia/cu13/" + file, text)
wheel("nvidia_cuda_runtime", "13.0.96", {
    "include/cuda.h": "#define CUDA_VERSION 13000\n",
    "include/cuda_runtime_api.h": "#include <crt/host_defines.h>\n#define CUDART_VERSION 13000\n",
    "lib/libcudart.so.13": ""})
wheel("nvidia_cuda_crt", "13.0.88", {"include/crt/host_defines.h": ""})
END_OF_FILE
install_deps
expect "what is missing is installed, after the headers" "0 apt-get update -q
apt-get install -q -y --no-install-recommends libgtest-dev libgmock-dev" "$status $(cat "$calls")"
said "how much is to be downloaded" "installing: libgtest-dev libgmock-dev (2.0 MB to download)"
(cd "$work/tree" && contrib/install-deps --dry-run) >"$work/said" 2>&1
said "without installing, too" "to install: libgtest-dev libgmock-dev (2.0 MB to download)"
install_deps
said "the user is told where they are" "export CUDA_HOME=$cache"
expect "programs can be linked there as with a toolkit" libcudart.so.13 "$(readlink "$cache/lib64/libcudart.so")"
expect "a second run has the headers" "present: cuda.h: $cache/include" "$(install_deps && grep cuda.h "$work/said")"
user=1000
mkdir "$work/rootless"
ln -s /usr/sbin/* /usr/bin/* /bin/* "$work/rootless" 2>/dev/null # some twice
rm -f "$work/rootless/sudo"
PATH=$work/bin:$work/rootless install_deps
expect "without root nothing is done" "1 " "$status $(cat "$calls")"
said "but the whole command is named" \
    'have root run "apt-get update && apt-get install --no-install-recommends libgtest-dev libgmock-dev", then run this again'
user=0 known=''
install_deps
expect "without an index nothing is installed" "1 apt-get update -q" "$status $(cat "$calls")"
said "and that is what it says" "apt has no package libgtest-dev libgmock-dev: its index is empty or too old"
mkdir -p "$work/a tree/contrib"
cp "$work/tree/contrib"/* "$work/a tree/contrib"
(cd "$work/a tree" && contrib/install-deps) >"$work/said" 2>&1
said "a path with a blank is refused at once" "the path of this source tree has a blank in it"

# configure: what it says of cuda.h. Its other checks are those of the machine.
[ -x "$root/configure" ] || skip_all "no configure"
configure() {
    mkdir -p "$work/build"
    (cd "$work/build" && "$work/configure" --srcdir="$root" "$@") >"$work/said" 2>&1
}
# Without a toolkit, neither in its own directory nor in the compiler's.
sed "s|/usr/local/cuda \"\" |$work/none |" "$root/configure" >"$work/configure"
chmod +x "$work/configure"
configure --without-cuda
said "--without-cuda" "error: --without-cuda: cuda.h is always needed"
configure --disable-shared
said "--disable-shared" "error: --disable-shared: UCX and the loader open ucx-gdr"
configure --with-clang=/nonexistent
said "configure finds the headers where install-deps has put them" "for cuda.h of CUDA 11.7 or later in $cache... yes"
said "those of the CUDA runtime, too" "for cuda_runtime_api.h of CUDA 11 to 13... 13"
said "--with-clang=/nonexistent" "error: --with-clang=/nonexistent: it does not compile for NVIDIA GPUs"
done_testing
