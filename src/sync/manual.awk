# Copyright (c) the ucx-gdr authors. BSD-3-Clause, see LICENSE.
#
# Makes the manual page of libucx-gdr from ugdr.h: its comments are paragraphs, its declarations stand as they are.
# "version" is the package's.

BEGIN {
    print ".TH UGDR 3 \"\" \"ucx\\-gdr " version "\""
    print ".SH NAME\nugdr \\- CUDA streams, graphs and kernels trigger UCP operations"
    print ".SH SYNOPSIS\n.nf\n#include <ucx\\-gdr/ugdr.h>\n.sp\ncc ... $(pkg\\-config \\-\\-cflags \\-\\-libs libucx\\-gdr) \\-lucp \\-lucs\n.fi"
    print ".SH DESCRIPTION"
}

NR == 1 { next } # the copyright
/^#(ifndef|define) UGDR_H|^#ifdef __cplusplus|^extern "C"|^#include/ { next }
/^#endif|^#ifdef/ { next }
/^}$/ { next } # of extern "C"; structures end with their names

{
    gsub(/\\/, "\\e")
    gsub(/-/, "\\-")
    if ($0 ~ /^['.]/)
        $0 = "\\&" $0
}

function listing(on) {
    if (on != in_listing)
        print on ? ".sp\n.nf" : ".fi"
    in_listing = on
}

# /* ---- title ---- */
/^\/\* (\\-)+ / {
    listing(0)
    gsub(/^\/\* (\\-)+ | (\\-)+ \*\/$/, "")
    print ".SH " toupper($0)
    next
}

# A comment of its own lines; others stay where they are.
/^\/\*/ { listing(0); print ".PP"; in_comment = 1 }
in_comment {
    ends = /\*\/$/
    sub(/^\/\*+ ?/, "")
    sub(/ ?\*\/$/, "")
    sub(/^ \* ?/, "")
    sub(/^   ?/, "")
    if ($0 == "")
        print ".sp"
    else if ($0 ~ /^ /)
        print ".br\n" $0
    else
        print
    in_comment = !ends
    next
}

NF { listing(1); print }
!NF && in_listing { print "" }

END { listing(0) }
