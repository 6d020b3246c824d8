# shellcheck shell=sh
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Tests on the machine's GPUs, with the emulated HCA. To be sourced after test/ucp/environment.sh, with $work a
# directory: programs get the real driver from then on. Without a GPU the test is skipped and says why.

# ucx-gdr chooses: if it takes the emulated GPUs it says why.
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$softcuda"}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
"$top_builddir/src/tools/ucx-gdr" env --emulate-hca >"$work/settings" 2>"$work/cause" || exit 99
if grep -q "$softcuda" "$work/settings"; then
    skip_all "$(sed 's/^ucx-gdr: //' "$work/cause")"
fi

# libtool's scripts beside programs would take the emulated driver, and their run path an installed one, so the tests
# run what is in .libs.
driver=$(echo "$LD_LIBRARY_PATH" | tr : '\n' | sed 's|$|/libcuda.so.1|' | xargs ls 2>/dev/null | head -n 1)
[ -n "$driver" ] || driver=$(ldconfig -p | sed -n 's/^.*libcuda\.so\.1 .*=> //p' | head -n 1)
mkdir "$work/driver" && ln -s "$driver" "$work/driver/libcuda.so.1" || exit 99
export LD_LIBRARY_PATH="$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# each PROGRAM FILTER: runs these tests of a program of $programs, each in a process of its own, so that they share no
# hardware queues and no default stream.
each() {
    check "$1 lists its tests" \
        emulated "$1" --gtest_list_tests --gtest_filter="$2" >"$work/list"
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' "$work/list" | grep -v DISABLED_ >"$work/tests"
    [ -s "$work/tests" ] || not_ok "$1 has tests"
    while read -r name; do
        run_cases "$1" --gtest_brief=1 --gtest_filter="$name" </dev/null
    done <"$work/tests"
}
