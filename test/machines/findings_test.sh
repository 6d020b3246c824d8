#!/usr/bin/env bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What "ucx-gdr doctor --replay" finds on the machines of this directory, and which HCAs serve which GPU there.
set -u

# shellcheck source=test/machines/environment.sh
. "$top_srcdir/test/machines/environment.sh"

# "exit 1", "WARNING roce.mtu mlx5_0:1: eth0 has ...", "GPU 0 mlx5_0:1, same switch".
# shellcheck disable=SC2317 # for_each_machine calls it
findings() {
    timeout -k 5 60 "$tool" doctor --replay "$dump" >"$work/said"
    echo "exit $?"
    awk '
        $1 ~ /^(ERROR|WARNING|info)$/ { gsub(/ +/, " "); print }
        $1 == "GPU" {
            line = $1 " " $2
            count = split($0, parts, "   ")
            for (i = 2; i <= count; ++i) { split(parts[i], words, " "); line = line " " words[1] }
            print line (count > 1 ? "," substr(parts[count], match(parts[count], / [^,]*$/)) : "")
        }' "$work/said"
}

for_each_machine findings exit ERROR WARNING info GPU
done_testing
