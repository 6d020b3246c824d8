# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Generates the rows of the module's table of calls (call.cpp).

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
        bare = name_of(word)
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

function call(prefix, kind, way, name, all, n, large) {
    printf "{\"%s\", Kind::%s, Form::%s, %s, %d,\n", name, kind, way, large, n
    printf " %s,\n %s,\n %s,\n", side("send", all, n), side("recv", all, n), side("compare", all, n)
    printf " %d, %d, %d, %d, %d, %d},\n", at("root", all, n), at("comm", all, n), at("request", all, n), at("op", all, n), at("target", all, n), at("win", all, n)
}
