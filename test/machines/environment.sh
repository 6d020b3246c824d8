# shellcheck shell=bash
# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# What the tests of machines share. A test does something with the dump of each, and compares it with lines of
# MACHINE.expected, which begin with a word. Sourced.

# shellcheck source=test/tools/environment.sh
. "$top_srcdir/test/tools/environment.sh"
[[ $GDR_DOCTOR == yes ]] || skip_all "ucx-gdr was built without the doctor"

# dump_of MACHINE: makes it, and sets $dump.
dump_of() {
    dump=$work/$1
    [[ -e $dump ]] || "$top_srcdir/test/machines/dump" "$1" "$dump" || exit 99
}

# for_each_machine COMMAND WORD...: the command prints what there is of a machine, $machine; of the expected lines those
# with one of the words.
for_each_machine() {
    local command=$1
    shift
    for machine in "$top_srcdir"/test/machines/*.machine; do
        machine=${machine##*/}
        machine=${machine%.machine}
        dump_of "$machine"
        expect "$machine" "$(grep -E "^($(IFS='|'; echo "$*")) " "$top_srcdir/test/machines/$machine.expected")" "$("$command")"
    done
}
