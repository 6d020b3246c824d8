# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Generates from calls.list: with -v what=entries the C entries of the preloaded library; with -v what=table the
# module's table, in the same order.

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
        call("MPIX", $1, "blocking", $3, arguments, count, "false")
        call("MPIX", $1, "blocking", $3 "_c", arguments, count, "false")
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
    call(prefix, kind, way, name, all, n, "false")
    if (forms ~ /c/ && prefix == "MPI")
        call(prefix, kind, way, name "_c", all, n, "true")
}

function call(prefix, kind, way, name, all, n, large) {
    if (what == "entries")
        entry(prefix, kind, name, all, n)
    else
        row(kind, way, name, all, n, large)
    ++index_of_call
}

# The fifth argument of ENTRY: whether the module's service has nothing to do for the call.
function entry(prefix, kind, name, all, n,    i, typed, passed, look, bare) {
    for (i = 0; i < n; ++i) {
        typed = typed (i ? ", " : "") "word a" i
        passed = passed (i ? ", " : "") "a" i
        bare = all[i + 1]
        sub(/[^a-z_].*/, "", bare)
        if (bare ~ /^(send|recv|compare)buf$|^buffer$/)
            look = look (look ? " && " : "") "is_host(a" i ", frame)"
    }
    if (kind == "detach" || kind ~ /^set_|info$/) look = "0" # no argument shows that there is nothing to do
    else if (kind == "synchronise") look = "!*in_epochs"
    else if (!look) look = "!*requests && !*partitions"
    printf "ENTRY(%d, %s_%s, (%s), (%s), %s)\n", index_of_call, prefix, name, typed, passed, look
}

# The part behind the * of an argument, as in "recvbuf*in~".
function blocks(word) {
    return match(word, /\*[a-z]+/) ? substr(word, RSTART + 1, RLENGTH - 1) : "one"
}
function flag(word, character) { return index(word, character) ? "true" : "false" }

# side("send", ...): a buffer with its count, type and displacements. Arguments without a side in their name belong to
# both sides; displs belongs to the side with several counts.
function side(which, all, n,    i, word, bare, initial, buffer, count_at, type_at, displs_at, peer, counts, types, aint, shape) {
    buffer = count_at = type_at = displs_at = peer = -1
    counts = types = aint = "false"
    initial = substr(which, 1, 1)
    for (i = 1; i <= n; ++i) {
        word = all[i]
        bare = word
        sub(/[^a-z_].*/, "", bare)
        if (bare == which "buf" || (bare == "buffer" && which != "compare")) {
            buffer = i - 1
            shape = word
        }
        if (bare == which "count" || (bare == "count" && count_at < 0) || (bare == "recvcount" && count_at < 0)) count_at = i - 1
        if (bare == which "counts" || (bare == "recvcounts" && count_at < 0)) { count_at = i - 1; counts = "true" }
        if (bare == which "type" || (bare == "datatype" && type_at < 0)) type_at = i - 1
        if (bare == (which == "send" ? "dest" : "source")) peer = i - 1
        if (bare == which "bytes" || bare == which "abytes") { count_at = i - 1; type_at = -2 }
        if (bare == which "abytes") aint = "true"
        if (bare == initial "position") displs_at = i - 1
        if (bare == which "types") { type_at = i - 1; types = "true" }
        if (bare == initial "displs") displs_at = i - 1
        if (bare == initial "adispls") { displs_at = i - 1; aint = "true" }
        if (bare == "displs" && counts == "true" && count_at == i - 2) displs_at = i - 1
    }
    return sprintf("{%d, %d, %d, %d, %d, %s, %s, %s, Blocks::%s, %s, %s, %s, %s, %s}", buffer, count_at, type_at, displs_at, peer, counts,
                   types, aint, blocks(shape), flag(shape, "@"), flag(shape, "~"), flag(shape, "<"), flag(shape, "+"), flag(shape, "="))
}

function at(name, all, n,    i) {
    for (i = 1; i <= n; ++i)
        if (all[i] == name) return i - 1
    return -1
}

function row(kind, way, name, all, n, large) {
    printf "{\"%s\", Kind::%s, Form::%s, %s, %d,\n", name, kind, way, large, n
    printf " %s,\n %s,\n %s,\n", side("send", all, n), side("recv", all, n), side("compare", all, n)
    printf " %d, %d, %d, %d, %d, %d},\n", at("root", all, n), at("comm", all, n), at("request", all, n), at("op", all, n), at("target", all, n), at("win", all, n)
}
