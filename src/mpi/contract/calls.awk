# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Reads calls.list. For each call in each of its forms it calls
#
#     call(prefix, kind, form, name, arguments, n, large)
#
# of the program that generates code (a second -f), with MPI or MPIX as prefix, "blocking", "nonblocking" or
# "persistent" as form, and the n arguments with their marks. index_of_call counts the calls from 0: the generated
# codes have them in the same order.

BEGIN { index_of_call = 0 }

/^#/ || !NF { next }

{
    split("", arguments)
    count = 0
    for (i = 4; i <= NF; ++i)
        arguments[++count] = $i
    forms = $2
    lower = "I" tolower(substr($3, 1, 1)) substr($3, 2)
    if (forms ~ /b/) form("MPI", $1, "blocking", $3, "", 1)
    if (forms ~ /n/) form("MPI", $1, "nonblocking", lower, "request", 0)
    if (forms ~ /p/) form("MPI", $1, "persistent", $3 "_init", "info request", 0)
    if (forms ~ /p/) form("MPIX", $1, "persistent", $3 "_init", "info request", 0)
    if (forms ~ /r/) form("MPI", $1, "nonblocking", "R" tolower(substr($3, 1, 1)) substr($3, 2), "request", 0)
    if (forms ~ /s/) form("MPI", $1, "persistent", $3, "request", 0)
    if (forms ~ /i/) form("MPI", $1, "nonblocking", "File_i" substr($3, 6), "request", 0)
    if (forms ~ /x/) {
        next_call("MPIX", $1, "blocking", $3, arguments, count, "false")
        next_call("MPIX", $1, "blocking", $3 "_c", arguments, count, "false")
    }
    if (forms ~ /q/) form("MPI", $1, "persistent", $3 "_init", "request", 0)
}

function form(prefix, kind, way, name, more, with_status,    all, n, i, words, m) {
    n = 0
    for (i = 1; i <= count; ++i)
        if (arguments[i] != "status" || with_status)
            all[++n] = arguments[i]
    m = split(more, words, " ")
    for (i = 1; i <= m; ++i)
        all[++n] = words[i]
    next_call(prefix, kind, way, name, all, n, "false")
    if (forms ~ /c/ && prefix == "MPI")
        next_call(prefix, kind, way, name "_c", all, n, "true")
}

function next_call(prefix, kind, way, name, all, n, large) {
    call(prefix, kind, way, name, all, n, large)
    ++index_of_call
}

# An argument without its marks.
function name_of(argument) {
    sub(/[^a-z_].*/, "", argument)
    return argument
}
