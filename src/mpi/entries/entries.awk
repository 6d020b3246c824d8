# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Generates calls.c: for each call the functions that entry.h describes, as plain C that a debugger steps through.

BEGIN {
    print "// Generated from calls.list by entries.awk. entry.h says what these functions are."
    print "#include \"mpi/entries/entry.h\"\n\n#include <stddef.h>\n"
}

function call(prefix, kind, way, name, all, n, large,    i) {
    name = prefix "_" name
    names[index_of_call] = name
    split("", arguments_of_call)
    for (i = 1; i <= n; ++i)
        arguments_of_call[i] = name_of(all[i])
    count_of_call = n
    signature(n)
    printf "\n// ---- %d: %s\n\n", index_of_call, name
    alias("P" name)
    alias(name)
    first_of("P" name, "gdr_mpi_find_own")
    first_of(name, "gdr_mpi_find_outer")
    look_at_own("P" name, nothing_to_do(kind, "is_seen"))
    look_at_outer(name)
    entry("P" name, "gdr_mpi_own", nothing_to_do(kind, "is_seen_at_once"))
    entry(name, "gdr_mpi_outer", nothing_to_do(kind, "is_seen_at_once"))
    choose("P" name, "P" name)
    choose(name, "P" name)
}

# The type of functions with n arguments.
function signature(n,    i, words) {
    type = "call_" n
    if (n in known)
        return
    known[n] = 1
    for (i = 1; i <= n; ++i)
        words[i] = "word"
    list("typedef int " type "(", words, n, ");")
}

# Prints the list between head and tail, in lines of at most 100 characters.
function list(head, items, n, tail,    i, line, item, indent) {
    indent = head
    sub(/^\n/, "", indent)
    gsub(/./, " ", indent)
    line = head
    for (i = 1; i <= n; ++i) {
        item = items[i] (i < n ? "," : tail)
        if (length(line) + length(item) + 1 > 100) {
            print line
            line = indent item
        } else
            line = line (i > 1 ? " " : "") item
    }
    print line
}

function begin(head,    i, parameters) {
    for (i = 1; i <= count_of_call; ++i)
        parameters[i] = "word " arguments_of_call[i]
    list("\n" head "(", parameters, count_of_call, ")")
    print "{"
}
function passed(head, tail) { list(head "(", arguments_of_call, count_of_call, ")" tail) }

# A condition under which the module's service has nothing to do for the call.
function nothing_to_do(kind, is_seen,    i, look) {
    if (kind == "detach" || kind ~ /^set_|info$/) return "" # no argument shows it
    if (kind == "synchronise") return "nothing_in_epochs()"
    for (i = 1; i <= count_of_call; ++i)
        if (arguments_of_call[i] ~ /^(send|recv|compare)buf$|^buffer$/)
            look = look (look ? " && " : "") is_seen "(" arguments_of_call[i] ", frame)"
    return look ? look : "no_requests()"
}
function negated(condition) { return condition ~ /&&/ ? "!(" condition ")" : "!" condition }

function alias(name) { printf "static %s entry_%s\n    __attribute__((alias(\"%s\")));\n", type, name, name }

function first_of(name, find) {
    begin("RARE static int first_of_" name)
    printf "    if (!%s(%d)) {\n        return gdr_mpi_lacks(%d);\n    }\n", find, index_of_call, index_of_call
    passed("    return entry_" name, ";")
    print "}"
}

function frame(condition) {
    if (condition ~ /frame/)
        print "    const word frame = (word)__builtin_dwarf_cfa();"
}

function look_at_own(name, nothing) {
    begin("RARE static int look_at_" name)
    printf "    %s* const to = (%s*)load(&gdr_mpi_own[%d]);\n", type, type, index_of_call
    print "    const struct gdr_mpi_service* const by = service();"
    frame(nothing)
    printf "    if (!by%s) {\n", nothing ? " || " (nothing ~ /&&/ ? "(" nothing ")" : nothing) : ""
    passed("        return to", ";")
    print "    }"
    list("    word arguments[] = {", arguments_of_call, count_of_call, "};")
    print "    if (is_of_application(__builtin_return_address(0), (function*)to)) {"
    printf "        return by->call(%d, (function*)to, arguments, &gdr_mpi_depth);\n    }\n", index_of_call
    printf "    by->forwarded(%d, arguments);\n", index_of_call
    passed("    return to", ";")
    print "}"
}

function look_at_outer(name) {
    begin("RARE static int look_at_" name)
    printf "    %s* const to = (%s*)load(&gdr_mpi_outer[%d]);\n", type, type, index_of_call
    printf "    if ((function*)to == load(&gdr_mpi_own[%d])) {\n", index_of_call
    passed("        return look_at_P" name, ";")
    print "    }"
    print "    const struct gdr_mpi_service* const by = service();"
    list("    const word arguments[] = {", arguments_of_call, count_of_call, "};")
    printf "    if (by) {\n        by->forwarded(%d, arguments);\n    }\n", index_of_call
    passed("    return to", ";")
    print "}"
}

function entry(name, functions, nothing) {
    begin("EXPORT int " name)
    printf "    if (!%s[%d]) {\n", functions, index_of_call
    print "        gdr_mpi_caller = __builtin_return_address(0);"
    passed("        return first_of_" name, ";")
    print "    }"
    if (!nothing) {
        passed("    return look_at_" name, ";")
        print "}"
        return
    }
    frame(nothing)
    printf "    if (%s) {\n", negated(nothing)
    passed("        return look_at_" name, ";")
    print "    }"
    passed(sprintf("    return ((%s*)load(&%s[%d]))", type, functions, index_of_call), ";")
    print "}"
}

function choose(name, own) {
    printf "\nstatic function* choose_%s(void)\n{\n", name
    printf "    const int shown = gdr_mpi_shows(\"%s\");\n", own
    printf "    return shown ? (function*)entry_%s : NULL;\n}\n", name
}

END {
    print "\n// ---- all of them\n"
    printf "enum { CALLS = %d };\n", index_of_call
    print "_Static_assert((size_t)CALLS <= GDR_MPI_MOST_NAMES, \"too many for gdr_mpi_show_names()\");\n"
    print "function* gdr_mpi_own[CALLS];\nfunction* gdr_mpi_outer[CALLS];"
    print "const unsigned gdr_mpi_calls = CALLS;\nconst struct gdr_mpi_name gdr_mpi_names[CALLS] = {"
    for (i = 0; i < index_of_call; ++i) {
        printf "    {\"P%s\",\n", names[i]
        printf "     {{(function*)entry_P%s, choose_P%s},\n", names[i], names[i]
        printf "      {(function*)entry_%s, choose_%s}}},\n", names[i], names[i]
    }
    print "};"
}
