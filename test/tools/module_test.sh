#!/bin/sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# The module file, read by Environment Modules and by Lmod, as far as they are installed: what loading sets, that
# UCX has gdr then, and that unloading leaves the environment as it was.
set -u

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"

readers=
for reader in modulecmd "${LMOD_CMD:-/usr/share/lmod/lmod/libexec/lmod}"; do
    ! command -v "$reader" >/dev/null || readers="$readers $reader"
done
[ -n "$readers" ] || skip_all "no Environment Modules (environment-modules) and no Lmod (lmod)"
for variable in $(env | sed -n 's/^\([_A-Z]*\(MODULE\|MODULES\|LMFILES\|LMOD\|_ModuleTable\)[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$variable"
done

# The module file of this build, with the places of what is built instead of what would be installed.
mkdir -p "$work/modules/ucx-gdr"
built=$(find "$top_builddir/src/tools/modulefiles/ucx-gdr" -type f)
file=$work/modules/ucx-gdr/${built##*/}
sed -e "s|^set bindir {/.*}$|set bindir {${tool%/*}}|" \
    -e "s|^set plugin {/.*/libuct_gdr.so.0}$|set plugin {$module}|" \
    -e "s|^set mpi_layer {/.*/libgdr_mpi.so.0}$|set mpi_layer {$mpi_layer}|" "$built" >"$file"
expect "the module file names our places" "bindir plugin${mpi_layer:+ mpi_layer}" "$(diff "$built" "$file" | sed -n 's/^> set \([a-z_]*\) .*/\1/p' | paste -s -d ' ')"
export MODULEPATH="$work/modules"
PATH=$(printf %s "$PATH" | tr : '\n' | awk '!seen[$0]++' | paste -s -d :) # Lmod makes that of it

module() { eval "$("$reader" sh "$@" 2>"$work/err")"; }
unset MANPATH LIBRARY_PATH CPATH PKG_CONFIG_PATH
environment() { env | grep -E '^(LD_PRELOAD|PATH|UCX_|OMPI_MCA_|[A-Z_]*PATH=)' | grep -vE "^(MODULEPATH|__MODULES_.*)=" | sort; }
configured() { sed -n "s/^set $1 {\(.*\)}\$/\1/p" "$built"; }
transports() { LD_PRELOAD="$emulated_hca:${LD_PRELOAD-}" ucx_info -d 2>&1; }
preloaded=$emulated_hca # what a user preloads

for reader in $readers; do
    name=$(basename "$reader")
    (
        before=$(environment)
        path=$PATH libraries=$LD_LIBRARY_PATH
        module load ucx-gdr
        expect "$name: nothing is said" "" "$(cat "$work/err")"
        expect "$name: the variables" "$(
            echo "CPATH=$(configured includedir)"
            echo "LD_LIBRARY_PATH=$(configured libdir):$libraries"
            echo "LD_PRELOAD=$module${mpi_layer:+:$mpi_layer}"
            echo "LIBRARY_PATH=$(configured libdir)"
            echo "MANPATH=$(configured mandir):"
            echo "OMPI_MCA_opal_common_ucx_devices=any"
            echo "OMPI_MCA_opal_common_ucx_tls=any"
            echo "OMPI_MCA_osc=ucx,sm"
            echo "OMPI_MCA_pml=ucx"
            echo "PATH=${tool%/*}:$path"
            echo "PKG_CONFIG_PATH=$(configured libdir)/pkgconfig"
            echo "UCX_GDR_TLS=gdr,sm,self"
        )" "$(environment | grep -vxF "$before")"
        expect "$name: UCX has both halves" "cuda ${hca_name}0:1" \
            "$(transports | awk '/Transport: gdr$/ { getline; print $3 }' | paste -s -d ' ')"
        expect "$name: UCX knows all variables" "" "$(transports | grep 'unused env')"
        module unload ucx-gdr
        expect "$name: unloading leaves nothing" "$before" "$(environment)"
        exit 0
    ) || not_ok "$name: to the end"
    (
        export UCX_TLS=gdr,tcp OMPI_MCA_opal_common_ucx_tls=mine LD_PRELOAD="$preloaded"
        before=$(environment)
        module load ucx-gdr
        expect "$name: what the user has set" "gdr,tcp mine" "$UCX_TLS $OMPI_MCA_opal_common_ucx_tls"
        expect "$name: what the user has added to" "$module${mpi_layer:+:$mpi_layer}:$preloaded" "$LD_PRELOAD"
        module unload ucx-gdr
        expect "$name: unloading leaves what the user has set" "$before" "$(environment)"
        exit 0
    ) || not_ok "$name: to the end"
done

done_testing
